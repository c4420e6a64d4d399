// Package buffer provides the memory of messages that arrive slowly, and limits it.
//
// Pool contains buffers for request bodies. Limit bounds the memory of all incomplete headers, or of
// all incomplete bodies. Each client has a Reservation in it; above the limit, the Limit cancels
// reading for the slowest clients. Both are safe for concurrent use.
package buffer
