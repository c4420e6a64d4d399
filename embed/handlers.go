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

// ErrNoHijack is what a handler gets that wants to take its connection over.
var ErrNoHijack = errors.New("embed: the connection is the node's and cannot be taken over: an app that upgrades connections runs behind a node (--upstream)")

// HTTP makes an http.Handler the app, by fasthttp's adaptor. The request counts as
// running until the handler has returned, also one that streams by http.Flusher, and its
// context ends then, or when the Done of its RequestCtx or, asked at each Done and Err, the
// clock says (see Err). With Config.StreamBodies a
// long body is read as it comes, and no more of it once the answer has begun to leave.
func HTTP(h http.Handler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		target, err := url.ParseRequestURI(string(ctx.RequestURI()))
		if err != nil {
			ctx.Error(err.Error(), fasthttp.StatusBadRequest)
			return
		}
		c := &call{h: h, ctx: ctx, target: target}
		if stream := ctx.RequestBodyStream(); stream != nil {
			c.body, c.length = stream, int64(max(ctx.Request.Header.ContentLength(), -1))
			ctx.Request.ResetBody() // else the adaptor reads it whole, however long
		}
		fasthttpadaptor.NewFastHTTPHandlerFunc(c.serve)(ctx)
	}
}

// call is one request for an http.Handler.
type call struct {
	h      http.Handler
	ctx    *fasthttp.RequestCtx
	target *url.URL
	body   io.Reader // nil: the adaptor's
	length int64     // of body; -1: unknown
}

// serve runs the handler, in a goroutine of the adaptor's.
func (c *call) serve(w http.ResponseWriter, r *http.Request) {
	task := proxy.Begin(c.ctx)
	defer task.End()
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			task.Break()
		default:
			task.Panicked(v)
		}
	}()
	told := c.ctx.Done()
	ctx, end := pollctx.Context(context.WithValue(context.WithoutCancel(r.Context()), requestKey{}, c.ctx), func() bool { return closed(told) || task.Outlived() })
	defer end()
	over := ctx.Done()
	go func() { // ends with the handler
		select {
		case <-told:
			end()
		case <-over:
		}
	}()
	own := owned(ctx, r, c.target)
	if c.body != nil {
		own.Body, own.ContentLength = io.NopCloser(c.body), c.length
	}
	c.h.ServeHTTP(&response{ResponseWriter: w}, own)
}

// closed tells whether a channel that carries nothing is closed. A cut closes told at once,
// and who passes it on comes later: by then the clock may speak of the next lease.
func closed(told <-chan struct{}) bool {
	select {
	case <-told:
		return true
	default:
		return false
	}
}

// Err returns why a handler is to come to its end, nil as long as it may go on: that of
// ctx, and besides what the clock says at this moment. A process that was stopped, or
// whose machine was suspended, goes on in all its goroutines at once, and its node, which
// tells ctx, is one of them: who is about to write what nothing fences asks first. The
// context of a request of HTTP asks by itself, whenever its Done or Err is called.
//
// It is for the handler, and for what it has begun by Go or Stream and has not ended.
func Err(ctx *fasthttp.RequestCtx) error {
	if proxy.Outlived(ctx) {
		return context.Canceled
	}
	return ctx.Err()
}

type requestKey struct{}

// RequestCtx returns what a request of HTTP is to fasthttp, for Go; nil if the context is
// none of such a request. It is lent until the request is over.
func RequestCtx(ctx context.Context) *fasthttp.RequestCtx {
	c, _ := ctx.Value(requestKey{}).(*fasthttp.RequestCtx)
	return c
}

// owned returns the request with strings of its own. Those that the adaptor makes are
// the memory of the RequestCtx, which has another request in it soon: a handler that
// keeps one, as a key of a map, would find it changed. Its context is ctx.
func owned(ctx context.Context, r *http.Request, target *url.URL) *http.Request {
	own := r.WithContext(ctx)
	own.Method, own.Proto, own.Host, own.RequestURI = strings.Clone(r.Method), strings.Clone(r.Proto), strings.Clone(r.Host), strings.Clone(r.RequestURI)
	own.URL = target
	own.Header = make(http.Header, len(r.Header))
	for name, values := range r.Header {
		kept := make([]string, len(values))
		for i, v := range values {
			kept[i] = strings.Clone(v)
		}
		own.Header[strings.Clone(name)] = kept
	}
	return own
}

// response is what the handler writes to.
type response struct{ http.ResponseWriter }

// WriteHeader passes over what is no last answer: there is no way for hints.
func (r *response) WriteHeader(status int) {
	if status < 200 && status >= 100 && status != http.StatusSwitchingProtocols {
		return
	}
	r.ResponseWriter.WriteHeader(status)
}

// Flush sends what there is.
func (r *response) Flush() {
	if f, ok := r.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Hijack refuses.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, ErrNoHijack }

// Go runs f beside the handler, or after it has returned: the request counts as running
// until f has returned too. It is called from the handler, or from an f. A panic of f
// is logged, and breaks an answer off that is still on its way.
func Go(ctx *fasthttp.RequestCtx, f func()) {
	task := proxy.Begin(ctx)
	go func() { // f is told by Done to come to its end
		defer task.End()
		defer func() {
			if v := recover(); v != nil {
				task.Panicked(v)
			}
		}()
		f()
	}()
}

// Stream makes what write writes the body of the answer, as SetBodyStreamWriter of
// fasthttp does; but the request counts as running until write has returned, whatever
// became of the client, and a panic of it does not end the process. When the answer is
// cut, Done tells, and Flush fails.
func Stream(ctx *fasthttp.RequestCtx, write fasthttp.StreamWriter) {
	pr, pw := io.Pipe()
	ctx.SetBodyStream(pr, -1)
	Go(ctx, func() {
		whole := false
		defer func() {
			if !whole {
				_ = pw.CloseWithError(io.ErrUnexpectedEOF) // write panicked
			}
		}()
		w := bufio.NewWriter(pw)
		write(w)
		whole = true
		_ = pw.CloseWithError(w.Flush())
	})
}
