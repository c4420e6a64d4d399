// Package processors has the Go runtime use as many processors as the work needs.
//
// Where a process may use several, each goroutine that becomes ready wakes a thread to
// look for work, which wakes the next one. For a proxy, whose work comes in pieces of
// microseconds, that is most of what waking up costs: with one processor a request takes
// a tenth to a quarter less processor time, and is answered as soon (docs/internals/performance-log.md,
// "As many processors as the work needs"). One is not enough for much work, so a Governor
// looks at what the process uses: it takes all there are as soon as those it has are busy,
// or it is itself behind time, and gives half of them back after some seconds in which half
// had done.
//
// A Governor decides and changes nothing; Run has the runtime follow it. One goroutine of
// a process calls Run: how many processors a process uses is one number.
package processors
