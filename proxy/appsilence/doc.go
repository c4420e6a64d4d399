// Package appsilence detects an app that hangs: requests wait, and the app sends no response.
//
// The sweep of the proxy counts the waiting requests in a Detector: BeginSweep, CountWaiting for each
// request, EndSweep. These belong to one goroutine. The goroutines of requests call RecordResponse,
// and any goroutine may call Report. All times are those of one monotonic clock, that of the proxy.
//
// Before minSafeSilence, the waiting time alone does not distinguish a request to a hanging app from a long poll.
// The Linux kernel, however, shows whether the app has read the request.
package appsilence
