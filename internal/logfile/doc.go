// Package logfile writes lines to a file without making anybody wait for it.
//
// Write puts a line into a buffer of bounded size; one goroutine, Run, empties it
// into the file every tenth of a second. When the disk does not keep up lines are
// lost, never the time of who writes them: they are counted, and a line says how
// many are missing where they are missing. What was written is in the file after
// Run has returned; a process that is killed loses the last tenth of a second.
package logfile
