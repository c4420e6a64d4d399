// Package inbound is the interface between a front, which accepts requests, and the pipeline of
// package proxy, which finds each request's owner and forwards the request there.
//
//	front ──ReadRequest──► pipeline ──attempt──► app or owner
//	  ▲                       │
//	  └─ WriteResponseHeader, WriteLocal, Writer, Abort
//
// A Request is one request and the means to respond to it. The strict HTTP/1 front of package http1
// implements it for each client connection, and uses the same Request for successive requests. A
// front with concurrent requests per connection, such as HTTP/2, uses one Request for each stream.
// The pipeline uses the front's connection only through this interface.
//
// # Concrete types
//
// Interface calls occur only a few times per request. The data itself passes through concrete types
// of package h1: Request with its Body, and Writer. A front for another protocol obtains all three
// from an h1.Conn over its own stream:
//
//   - Requests. The front writes the header as HTTP/1 text into the stream that the h1.Conn reads,
//     and after it the body: without framing if Content-Length declares its length, and otherwise in
//     chunks. The header then passes the same strict validation as any other header.
//   - Responses. WriteResponseHeader receives the parsed header. The front sends it in its own
//     format, and calls BeginBody on the Writer with h1.Length or h1.UntilClose. The Writer then
//     sends the bytes of the body without framing. Trailers of the response are lost in that case, because Writer.Close passes them on only in chunked bodies.
//
// WriteResponseHeader puts the header, in the front's format, into the Writer before BeginBody.
// Header and body are then sent together, after the Writer's precondition, and Discard drops both.
//
// # Goroutines
//
// One goroutine runs a request from ReadRequest until the pipeline returns. A second goroutine that
// sends the body to the app may use the body and StopRead. Abort, StopRead and Addrs may be called
// by any goroutine. All other methods belong to the goroutine of the request.
package inbound
