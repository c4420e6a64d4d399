// Package forwarded determines where a request comes from, and writes that into the headers for
// the app: Via, X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto and Forwarded (RFC 7239).
// It also reads the trace id of a request (W3C Trace Context).
//
// Client describes the sender of a connection. A client's headers count only if the client is a trusted proxy. The
// goroutine of the connection owns its Client.
package forwarded
