package embed

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"shardway/internal/pollctx"
	"shardway/proxy"
)

// ErrNoHijack is the error for a handler that tries to take over its connection.
var ErrNoHijack = errors.New("embed: the connection is the node's and cannot be taken over: an app that upgrades connections runs behind a node (--upstream)")

// HTTP converts an http.Handler to a handler of this package, with fasthttp's adaptor. The request
// is in progress until the handler has returned, even if it streams with http.Flusher. Its context
// is cancelled when the handler returns or the RequestCtx is done. The context also reads the clock
// at each Done and Err (see Err). With Config.StreamBodies, a long body is read while it arrives,
// until the response starts.
func HTTP(h http.Handler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		target, err := url.ParseRequestURI(string(ctx.RequestURI()))
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadRequest)
			return
		}
		c := &httpCall{handler: h, ctx: ctx, target: target}
		if stream := ctx.RequestBodyStream(); stream != nil {
			c.body, c.length = stream, int64(max(ctx.Request.Header.ContentLength(), -1))
			ctx.Request.ResetBody() // otherwise the adaptor reads the whole body
		}
		fasthttpadaptor.NewFastHTTPHandlerFunc(c.serve)(ctx)
	}
}

// httpCall is one request for an http.Handler.
type httpCall struct {
	handler http.Handler
	ctx     *fasthttp.RequestCtx
	target  *url.URL
	body    io.Reader // nil means the body of the adapted request
	length  int64     // of body; -1 means unknown
}

// serve runs the handler on a goroutine of the adaptor.
func (c *httpCall) serve(w http.ResponseWriter, adapted *http.Request) {
	task := proxy.Begin(c.ctx)
	defer task.End()
	defer func() {
		switch panicValue := recover(); panicValue {
		case nil:
		case http.ErrAbortHandler:
			task.Fail()
		default:
			task.Panicked(panicValue)
		}
	}()
	ctx, cancel := c.newContext(adapted, task)
	defer cancel()
	clone := cloneRequest(ctx, adapted, c.target) //nolint:contextcheck // ctx inherits the values of the adapted request
	if c.body != nil {
		clone.Body, clone.ContentLength = io.NopCloser(c.body), c.length
	}
	c.handler.ServeHTTP(&response{ResponseWriter: w}, clone)
}

// newContext returns the context of the request for the handler. It ends when the RequestCtx is done,
// when the lease under which the request runs has expired, or when cancel is called. The caller must
// call cancel when the handler has returned.
func (c *httpCall) newContext(adapted *http.Request, task proxy.Task) (_ context.Context, cancel func()) {
	requestDone := c.ctx.Done()
	values := context.WithValue(context.WithoutCancel(adapted.Context()), requestKey{}, c.ctx)
	ctx, cancel := pollctx.Context(values, func() bool { return isClosed(requestDone) || task.LeaseExpired() })
	contextDone := ctx.Done()
	go func() { // ends with the handler
		select {
		case <-requestDone:
			cancel()
		case <-contextDone:
		}
	}()
	return ctx, cancel
}

// isClosed reports whether done, on which nothing is ever sent, is closed. The context of newContext
// checks the channel directly, because the goroutine that waits for it may be scheduled late, and
// task.LeaseExpired may by then refer to the next lease.
func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Err returns the reason why a handler must stop, or nil while it may continue. It returns the
// error of ctx, and also checks the clock. After a pause of the process or of the machine, all
// goroutines continue at the same time, including the one that would cancel ctx. Therefore, call
// Err before a write without fencing. The context of an HTTP request performs this check at each
// Done and Err.
//
// Err may be called by the handler, and by work that it has started with Go or Stream and that is
// still running.
func Err(ctx *fasthttp.RequestCtx) error {
	if proxy.LeaseExpired(ctx) {
		return context.Canceled
	}
	return ctx.Err()
}

// requestKey is the context key of the RequestCtx of an HTTP request.
type requestKey struct{}

// RequestCtx returns the fasthttp request of an HTTP request, for Go, or nil for any other context.
// The RequestCtx must not be used after the request has ended.
func RequestCtx(ctx context.Context) *fasthttp.RequestCtx {
	c, _ := ctx.Value(requestKey{}).(*fasthttp.RequestCtx)
	return c
}

// cloneRequest returns a copy of the request with the context ctx and with copies of all strings.
// The strings of the adaptor are in the memory of the RequestCtx, which is reused for another
// request. A handler that kept such a string, for example as a map key, would find it modified.
func cloneRequest(ctx context.Context, original *http.Request, target *url.URL) *http.Request {
	clone := original.WithContext(ctx)
	clone.Method = strings.Clone(original.Method)
	clone.Proto = strings.Clone(original.Proto)
	clone.Host = strings.Clone(original.Host)
	clone.RequestURI = strings.Clone(original.RequestURI)
	clone.URL = target
	clone.Header = make(http.Header, len(original.Header))
	for name, values := range original.Header {
		clones := make([]string, len(values))
		for i, v := range values {
			clones[i] = strings.Clone(v)
		}
		clone.Header[strings.Clone(name)] = clones
	}
	return clone
}

// response is the http.ResponseWriter of the handler.
type response struct{ http.ResponseWriter }

// WriteHeader ignores interim responses, which fasthttp cannot send.
func (r *response) WriteHeader(status int) {
	isInterim := status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
	if isInterim {
		return
	}
	r.ResponseWriter.WriteHeader(status)
}

// Flush sends buffered data.
func (r *response) Flush() {
	if f, ok := r.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Hijack returns ErrNoHijack.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, ErrNoHijack }

// Go runs f concurrently with the handler. The request is in progress until f has returned as
// well. It must be called from the handler or from such an f. A panic of f is logged, and aborts a
// response that is not complete.
func Go(ctx *fasthttp.RequestCtx, f func()) {
	task := proxy.Begin(ctx)
	go func() { // f should end when ctx is done
		defer task.End()
		defer func() {
			if v := recover(); v != nil {
				task.Panicked(v)
			}
		}()
		f()
	}()
}

// Stream makes write produce the body of the response, like SetBodyStreamWriter of fasthttp. In
// contrast to that, the request is in progress until write has returned, even if the client has
// disconnected, and a panic of write does not end the process. When the response is aborted, Done
// is closed and Flush fails.
func Stream(ctx *fasthttp.RequestCtx, write fasthttp.StreamWriter) {
	bodyReader, bodyWriter := io.Pipe()
	ctx.SetBodyStream(bodyReader, -1)
	Go(ctx, func() {
		completed := false
		defer func() {
			if !completed {
				_ = bodyWriter.CloseWithError(io.ErrUnexpectedEOF) // write panicked
			}
		}()
		w := bufio.NewWriter(bodyWriter)
		write(w)
		completed = true
		_ = bodyWriter.CloseWithError(w.Flush())
	})
}
