package embed

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"shardway/proxy"
)

// ErrNoHijack is what a handler gets that wants to take its connection over.
var ErrNoHijack = errors.New("embed: the connection is the node's and cannot be taken over: an app that upgrades connections runs behind a node (--upstream)")

// HTTP makes an http.Handler the app, by fasthttp's adaptor. The context of its requests
// is their RequestCtx, so it ends when Done says. The request counts as running until
// the handler has returned, also one that streams by http.Flusher. A body is read whole
// before it is called.
func HTTP(h http.Handler) fasthttp.RequestHandler {
	inner := fasthttpadaptor.NewFastHTTPHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, ok := r.Context().(*fasthttp.RequestCtx)
		if !ok {
			h.ServeHTTP(w, r)
			return
		}
		task := proxy.Begin(ctx)
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
		own, err := owned(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.ServeHTTP(&response{ResponseWriter: w}, own)
	}))
	return func(ctx *fasthttp.RequestCtx) {
		if stream := ctx.RequestBodyStream(); stream != nil {
			body, err := io.ReadAll(stream)
			if err != nil {
				return // the node knows, and answers
			}
			ctx.Request.SetBody(body)
		}
		inner(ctx)
	}
}

// owned returns the request with strings of its own. Those that the adaptor makes are
// the memory of the RequestCtx, which has another request in it soon: a handler that
// keeps one, as a key of a map, would find it changed.
func owned(r *http.Request) (*http.Request, error) {
	own := r.WithContext(r.Context())
	own.Method, own.Proto, own.Host, own.RequestURI = strings.Clone(r.Method), strings.Clone(r.Proto), strings.Clone(r.Host), strings.Clone(r.RequestURI)
	var err error
	if own.URL, err = url.ParseRequestURI(own.RequestURI); err != nil {
		return nil, err
	}
	own.Header = make(http.Header, len(r.Header))
	for name, values := range r.Header {
		kept := make([]string, len(values))
		for i, v := range values {
			kept[i] = strings.Clone(v)
		}
		own.Header[strings.Clone(name)] = kept
	}
	return own, nil
}

// response is what the handler writes to.
type response struct{ http.ResponseWriter }

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
