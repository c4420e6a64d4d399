// Package workerpool runs jobs in reusable goroutines.
//
// The stack of a goroutine that has run a job has already grown to the size that such a job needs. For a short
// client connection, growing a stack takes more than a tenth of the time, so a Pool keeps a limited number of idle
// goroutines. Any goroutine may call Submit.
package workerpool
