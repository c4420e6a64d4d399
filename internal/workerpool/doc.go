// Package workerpool runs jobs in goroutines that are used again.
//
// The stack of a goroutine that has run a job has already grown to the size that such a job needs.
// For a short client connection, growing a stack costs more than a tenth of the time. Therefore a
// Pool keeps a limited number of idle goroutines. Any goroutine may call Submit.
package workerpool
