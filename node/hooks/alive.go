package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"shardway/ack/agent"
)

const (
	// aliveName is the name of the hook in its path and header.
	aliveName = "alive"
	// aliveIdle is the time after which the idle connection of the calls is closed.
	aliveIdle = 5 * time.Second
	// maxAlive is the number of bytes of a response body that are read, so that the connection can be
	// reused. The body is ignored.
	maxAlive = 4 << 10
)

// alive is the body of a request.
type alive struct {
	ID       string `json:"id"`
	After    string `json:"after"`
	Disk     string `json:"disk"`
	Map      uint64 `json:"map"`
	Held     int    `json:"held"`
	MayWrite int64  `json:"may_write_ms"`
}

// Alive sends the call c over a persistent connection. follows is true if the app has accepted the call. It
// is false without an error if the app responds with status 404, 405 or 501, because then it has no such
// hook. Any other status except 2xx is an error, because the app may still write. refused is true if no
// process listens at the address of the app. Calls must not overlap.
func (h *HTTP) Alive(ctx context.Context, c agent.AliveCall) (follows, refused bool, err error) {
	b, _ := json.Marshal(alive{c.ID, c.After, h.Disk, uint64(c.Map), c.Held, c.MayWrite.Milliseconds()}) // cannot fail for these types
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.Host+h.Path+"/"+aliveName, bytes.NewReader(b))
	if err != nil {
		return false, false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "shardway-hooks")
	r.Header.Set(Header, aliveName)
	if h.aliveTransport == nil {
		h.aliveTransport = &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return h.Dial(ctx) },
			Proxy:       nil, DisableCompression: true, MaxIdleConns: 1, IdleConnTimeout: aliveIdle, MaxResponseHeaderBytes: maxHead,
		}
	}
	res, err := h.aliveTransport.RoundTrip(r)
	if err != nil {
		return false, errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist), err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(res.Body, maxAlive))
	err = errors.Join(err, res.Body.Close())
	switch {
	case res.StatusCode >= 200 && res.StatusCode <= 299:
		return true, false, err
	case res.StatusCode == http.StatusNotFound, res.StatusCode == http.StatusMethodNotAllowed, res.StatusCode == http.StatusNotImplemented:
		return false, false, err
	}
	return false, false, errors.Join(err, fmt.Errorf("hooks: alive: status %d", res.StatusCode))
}

// CloseAlive closes the connection of Alive. No call of Alive may be in progress.
func (h *HTTP) CloseAlive() {
	if h.aliveTransport != nil {
		h.aliveTransport.CloseIdleConnections()
	}
}
