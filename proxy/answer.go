package proxy

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/internal/problem"
	"shardway/proxy/h1"
)

// answer answers the request with a problem. Its body may still be unread.
func (c *client) answer(p *problem.Problem) {
	if c.x.cut {
		return
	}
	status := p.StatusCode()
	if p.RetryAfter == 0 && status == http.StatusServiceUnavailable {
		p.RetryAfter = time.Second
	}
	p.Node = c.s.o.Node
	if c.x.sharded {
		p.Shard, p.HasShard = uint32(c.x.shard), true
		p.Epoch = c.s.o.Cluster.Table().committed
	}
	b := append(c.extra[:0], "Content-Type: "+problem.ContentType+"\r\nCache-Control: no-store\r\n"+problem.HeaderError+": "...)
	b = append(b, p.Code...)
	b = append(b, "\r\n"...)
	if s := p.RetryAfterSeconds(); s > 0 {
		b = append(b, "Retry-After: "...)
		b = strconv.AppendInt(b, int64(s), 10)
		b = append(b, "\r\n"...)
	}
	c.extra = b
	c.x.account.code = p.Code
	c.s.metrics.problem(p.Code)
	c.s.metrics.request(c.x.routeOf(), status)
	c.s.o.Log.Debug().Str("error", string(p.Code)).Int("status", status).Uint32("shard", uint32(c.x.shard)).
		Str("detail", p.Detail).Msg("request failed")
	c.writeAnswer(status, append(p.AppendJSON(make([]byte, 0, 512)), '\n'), b)
}

// writeAnswer sends an answer of our own with these header lines. A body that
// is not worth reading away ends the connection.
func (c *client) writeAnswer(status int, body, lines []byte) {
	if (!c.x.onDemand || c.x.asked) && !c.mayKeep() {
		c.x.keep = false
	}
	c.answered(status, nil)
	w := c.h.Writer()
	b := appendStatusLine(make([]byte, 0, 256+len(lines)), status, fasthttp.StatusMessage(status))
	b = append(b, "Date: "...)
	b = append(b, c.s.date()...)
	b = append(b, "\r\n"...)
	b = append(b, lines...)
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(body)), 10)
	b = append(b, "\r\n"...)
	switch {
	case !c.x.keep:
		b = append(b, "Connection: close\r\n"...)
	case c.req.Minor() == 0:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	w.Put(append(b, "\r\n"...))
	if !c.req.IsHead() {
		w.Put(body)
	}
	if w.Flush() != nil {
		c.x.cut = true
	}
}

// probe answers a request for Options.ProbePath.
func (c *client) probe() bool {
	path := c.set.ProbePath
	if path == "" || string(c.req.Path()) != path || c.s.o.Probe == nil {
		return false
	}
	status, text := 200, "ready\n"
	if ready, reason := c.s.o.Probe(); !ready {
		status, text = 503, reason+"\n"
	}
	c.writeAnswer(status, []byte(text), []byte("Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"))
	return true
}

// appendStatusLine appends a status line with the usual words.
func appendStatusLine(b []byte, status int, text string) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, text...)
	return append(b, "\r\n"...)
}

// answerFailure answers with what an attempt came to.
func (c *client) answerFailure(v verdict) {
	p := &problem.Problem{Code: v.code, Detail: v.detail}
	if v.reason != 0 {
		p.Reason = v.reason.String()
	}
	if v.code == problem.PeerUnreachable && v.reason != 0 && !c.x.mayHaveRun() {
		p.Status = http.StatusServiceUnavailable // it has not run: come again
	}
	if v.code == problem.UpstreamRefused {
		p.RetryAfter = time.Second
	}
	c.answer(p)
}

// answerBad answers bytes that are no proper request, and the connection ends.
func (c *client) answerBad(bad *h1.Error) {
	c.x.keep = false
	p := &problem.Problem{Code: problem.BadRequest, Status: bad.Status(), Detail: bad.Reason()}
	switch bad.Status() {
	case http.StatusRequestEntityTooLarge:
		p.Code = problem.TooLarge
	case http.StatusRequestURITooLong:
		p.Code = problem.URITooLong
	case http.StatusRequestHeaderFieldsTooLarge:
		p.Code = problem.HeadTooLarge
	}
	c.answer(p)
}

// answerSlow answers a head that did not come in time.
func (c *client) answerSlow() {
	c.x.keep = false
	c.answer(&problem.Problem{Code: problem.RequestTimeout, Detail: "the request head did not arrive in time"})
}

// badBody ends a request whose body the client broke off or framed badly.
func (c *client) badBody(err error) verdict {
	c.up.broken = true
	var bad *h1.Error
	switch {
	case errors.As(err, &bad):
		c.answerBad(bad)
	case errors.Is(err, errGivenUp):
		c.x.keep = false // it is read no more
		c.answer(&problem.Problem{Code: problem.RequestTimeout, Detail: "too many request bodies are arriving at once, and this was one of the slowest (--max-body-total)"})
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.answer(&problem.Problem{Code: problem.RequestTimeout, Detail: "the request body stopped arriving or arrived too slowly (--idle-timeout, --min-body-rate)"})
	default:
		c.s.metrics.clientsGone.Add(1)
		c.x.cut = true
	}
	return done
}
