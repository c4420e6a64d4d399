// Package logfile writes lines to a file without blocking the callers.
//
// Write appends a line to a bounded buffer. One goroutine, Run, writes the buffer to the file every 100 ms. If the
// disk is too slow, lines are dropped and counted, and a line in their place reports how many are missing. After
// Run has returned, all written lines are in the file. A killed process loses the lines of the last 100 ms.
package logfile
