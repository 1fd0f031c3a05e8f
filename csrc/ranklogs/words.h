// Made of knowledge/log_words.toml by generate_words.py.
#pragma once

#include <string_view>

namespace pm::ranklogs {
// clang-format off

// Levels of loggers, as they write them at the head of a line.
inline constexpr std::string_view kLevels[] = {
    "ERROR", "CRITICAL", "FATAL", "WARNING", "WARN", "INFO", "DEBUG",
};

// What stands before a colon in the output of any program, and is no host.
inline constexpr std::string_view kNoHosts[] = {
    "NOTE", "TRACE", "info", "warning", "error", "debug", "note", "srun", "slurmstepd", "wandb",
    "Epoch", "epoch", "step", "Step", "loss", "File", "Traceback", "mpirun", "torchrun", "make",
    "gmake", "ninja", "cmake", "ld", "gcc", "g++", "nvcc", "bash", "sh", "zsh", "env", "sudo",
    "timeout", "nohup", "python", "python3", "perl", "ruby", "node", "java", "pip", "conda", "git",
    "curl", "wget", "ssh", "scp", "rsync", "docker", "podman", "singularity", "kubectl", "sbatch",
    "mpiexec", "orterun", "prterun", "deepspeed", "accelerate", "ok", "changed", "skipping",
    "failed", "fatal",
};

// How names of exceptions and warnings end, which are no hosts either.
inline constexpr std::string_view kNoHostEnds[] = {
    "Error", "Warning", "Exception",
};

// How words end before a number at the head of a line that is no rank's.
inline constexpr std::string_view kNoRanks[] = {
    "hread", "tep", "poch", "ter", "rial", "tempt", "ode", "ost",
};

// How words end before a number that counts the processes of a job, if those from 0 on are all there.
inline constexpr std::string_view kTasks[] = {
    "rocess", "proc", "orker", "ask", "eplica", "pod",
};

// What a word has in it that calls its line an error or a warning: such a line is no work.
inline constexpr std::string_view kWrong[] = {
    "Error", "ERROR", "WARN", "Warning", "Exception", "Traceback", "FATAL", "CRITICAL",
};

// Units of time: a number before one tells how long something took, not how much was done.
inline constexpr std::string_view kUnits[] = {
    "s", "ms", "us", "ns", "m", "h", "d", "sec", "secs", "second", "seconds", "min", "mins",
    "minutes", "hour", "hours", "days", "ago", "millis", "秒", "分", "毫秒",
};

// How words end that a time stands behind: elapsed, duration, latency.
inline constexpr std::string_view kTimes[] = {
    "time", "TIME", "apsed", "took", "ration", "ency", "eta", "ETA",
};

// How units of a rate end: tokens/s, MB/s.
inline constexpr std::string_view kRateEnds[] = {
    "/s",
};

// What a unit of time for each item has in it: s/it, ms/step.
inline constexpr std::string_view kPerItem = "s/";

// What stands behind host, pid, thread and device in a line of NCCL.
inline constexpr std::string_view kNcclInfo = "NCCL INFO ";

// How NCCL tells of a channel to another rank.
inline constexpr std::string_view kNcclLink = "NCCL INFO Channel ";

// Between two ranks, and between a place and its result.
inline constexpr std::string_view kNcclTo = " -> ";

// What stands before the name of a transport.
inline constexpr std::string_view kNcclVia = " via ";

// Marks the channel of who receives.
inline constexpr std::string_view kNcclReceive = "[receive]";

// How the name of a source file ends, before the number of its line.
inline constexpr std::string_view kNcclSource = ".cc:";

// clang-format on
}  // namespace pm::ranklogs
