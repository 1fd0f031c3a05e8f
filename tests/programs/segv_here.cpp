// Dies of a null pointer in a function that a mapped file of another build must never be blamed by.
[[gnu::noinline]] int innocent(int* target) { return *target = 1; }

int main() { return innocent(nullptr); }
