#include "slim/selection.h"

#include "slim/loaded.h"
#include "slim/python_objects.h"
#include "slim/stacks.h"

namespace pm::slim {

Selection select(elfcore::Core& core, const elfcore::Modules& modules, const Walk& walk) {
  Selection result;
  if (core.slim() && !core.slim()->spooled) {  // chosen once: choosing again could only lose
    for (const elfcore::Segment& piece : core.pieces()) {
      if (piece.present > 0) result.ranges.push_back({piece.start, piece.start + piece.present});
    }
    return result;
  }
  PageSet pages;
  Recorder recorder(pages, core.watch());
  const elfcore::Memory memory(core, modules);
  {
    const Watching watching(core, &recorder);
    walk(core);
    keep_stacks(memory, pages);
    keep_link_map(memory, pages);
    keep_python(memory, pages);
  }
  // Unwatched: it reads whole mappings to find out which pages differ from the file.
  keep_modules(memory, pages);
  if (recorder.full()) {
    result.problems.add("slim core",
                        "its readers look at more than " + std::to_string(Recorder::kLimit >> 20) +
                            " MiB; the rest of that is left out",
                        "keep the original until the reports of both are the same");
  }
  result.ranges = pages.ranges();
  return result;
}

}  // namespace pm::slim
