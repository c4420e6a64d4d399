// Package cause lists the reasons why another goroutine cancels a run. A run is the execution of one
// attempt to serve a request.
//
// The code that cancels a run stores the Cause in the slot of the connection. The goroutine of the
// run reads it when the run has ended, and decides whether the request is retried, and which response
// its client gets. The names of the causes are label values of a metric.
package cause
