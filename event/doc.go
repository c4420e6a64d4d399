// Package event keeps what happened at a node, for whoever asks later.
//
// A Ring has the last events of one process, numbered from 1 on. Whoever has something
// to tell adds it, from any goroutine, and waits for nobody. Readers take copies, each at
// its own pace, by the number of the last event that it has seen: nothing is kept for a
// reader, so none can hold up another, or the ring. One that was too slow learns how many
// it has missed.
//
// An ID names the process beside the number. After a restart, or at another node, it
// names nothing, and its reader is told so instead of being given what has the same
// number there.
package event
