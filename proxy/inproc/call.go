package inproc

import (
	"fmt"
	"runtime/debug"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"shardway/proxy/buffer"
	"shardway/proxy/cause"
	"shardway/proxy/connlife"
	"shardway/proxy/h1"
	"shardway/proxy/inbound"
	"shardway/proxy/inflight"
	"shardway/proxy/reqbody"
)

// App is an app that runs in this process. Its fields must not change after the first NewConn.
type App struct {
	Handler fasthttp.RequestHandler
	// StreamBodies passes request bodies that are not buffered to Handler as streams.
	StreamBodies bool
	Log          zerolog.Logger // receives panics of the app, and what handlers log
	// LeaseExpired reports whether the lease of this node has expired. nil means that the node has no
	// such check.
	LeaseExpired func() bool
	// Cancel cancels a run, if it is still in progress in slot.
	Cancel func(slot *inflight.Slot, run inflight.Run, cancelCause cause.Cause)

	StreamBuffers    *buffer.Pool // buffers for the streams of responses
	StreamBufferSize int          // size of such a buffer in bytes
}

// logPanic logs a panic in the app's code. The node continues to run.
func (app *App) logPanic(value any) {
	app.Log.Error().Str("panic", fmt.Sprint(value)).Bytes("stack", debug.Stack()).Msg("app panicked")
}

// Call is one request for the app. All fields must be set.
type Call struct {
	Request     *h1.Request     // the header as the client has sent it, and the body
	Client      inbound.Request // front that has accepted the request
	IsForwarded bool            // another node has accepted the request, and X-Forwarded-For contains its client
	Body        *reqbody.Body
	Response    *h1.Response // memory for the header of the response

	Slot       *inflight.Slot // contains the run of the request
	Disconnect *connlife.DisconnectWatch

	MaxBody      int64 // maximum length of the request body in bytes; zero means the default
	MaxBodyTotal int64 // maximum memory of all incomplete request bodies in bytes
	MaxHeaders   int   // maximum number of header lines of the response

	Pipeline Pipeline
}

// Pipeline contains the steps of a request that package proxy executes. They are called at most once
// per request, except RequestBody.
type Pipeline interface {
	// RequestBody makes the client send the body, if it waits for a 100 (Continue). A goroutine of the
	// app may call it.
	RequestBody() error
	// ResponseReady is called when the handler has set a valid response, and nothing of it has been
	// sent.
	ResponseReady(res *h1.Response)
	// RejectsRequest reports whether the response means that the handler did not run the request,
	// so that it must be sent to another app instance. In that case nothing of the response is
	// sent.
	RejectsRequest(res *h1.Response) bool
	// BeginResponse begins the response to the client, after the run was marked so that no other
	// response is possible. It returns the Writer for the body.
	BeginResponse(res *h1.Response) *h1.Writer
	// Release releases the shard of the request, after its run has ended.
	Release()
	// Abort ends the run without a response, because the handler has ended its goroutine with
	// runtime.Goexit. Conn.Serve does not return in that case.
	Abort()
}
