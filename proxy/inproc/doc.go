// Package inproc runs an app inside this process: a fasthttp.RequestHandler. A request for the app
// needs no second socket.
//
// # Main types
//
//	App       the handler, and what all connections to it have in common
//	Conn      passes one request at a time to the handler; to package proxy it is a connection to the app
//	Call      one request for Conn.Serve: its header and body, its client, and its run
//	Pipeline  the steps of the request that remain in package proxy
//	Task      a part of a request that continues after the handler has returned
//
// # One request
//
//	Conn.Serve ─► fasthttp ─► App.Handler ─► Pipeline.ResponseReady ─► BeginResponse ─► Release ─► Result
//	                             │  ▲
//	                             └──┴─ Pipeline.RequestBody, Call.Request.Body
//
// The handler runs on the goroutine of the request, and so do all methods of Pipeline except
// RequestBody. Another goroutine may call Conn.Close, which cancels the request: RequestCtx.Done ends,
// and reads of the request body fail. The request is in flight until the handler and all its Tasks have
// ended.
package inproc
