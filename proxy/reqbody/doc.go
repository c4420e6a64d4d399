// Package reqbody buffers the beginning of a request body, so that the request can be retried, and
// sends the body to the app or to another node while the response arrives.
//
// A Body belongs to the connection of a client, and is reused for its requests:
//
//	Init ─► Reset ─► BufferSmallBody or ReadAvailable ─► StartSending ─► AwaitSent or StopSending ─► next request
//
// The goroutine of the connection calls the methods. StartSending starts another goroutine, which
// reads from the client until the end of the body, an error, or StopSending. Any goroutine may call
// IsBeingRead, LastReadAt and IsSendingEnd.
//
// All bodies of a server use one Shared. It limits the memory of bodies that are incomplete.
package reqbody
