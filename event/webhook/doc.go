// Package webhook sends the events of a node to an HTTP receiver, as CloudEvents 1.0 in JSON batches.
//
// A [Sender] reads the [event.Ring] of its node like any other reader, so it never delays the node. It sends up to
// 64 events with each request, and waits for the response before the next request. A response with status 2xx
// acknowledges the events of the request. After any other result, the sender reads the same events from the ring again
// and repeats them with back-off.
//
// # Delivery
//
// Each event of the ring is delivered at least once while the process runs. It is lost if
//
//   - the ring drops it before the receiver acknowledges it: the sender counts it, and the next batch starts with an
//     event of the kind lost,
//   - the receiver rejects it alone several times, with 400, 413 or 422,
//   - the process ends before the receiver acknowledges it.
//
// A receiver recognizes repeated events by their source and id. Each node sends what it observes, so several nodes send
// events about one change of the cluster. These events have different ids, and the same attribute "occurrence" if the
// change has an identity that all nodes share.
//
// # Secrets
//
// The URL can contain a password or a token. No log line, error or metric contains more of it than scheme and host.
//
// # Concurrency
//
// One goroutine calls Run. The other methods may be called from any goroutine.
package webhook
