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
	// aliveIdleTimeout is the time after which the idle connection of the calls is closed.
	aliveIdleTimeout = 5 * time.Second
	// maxAliveBody is the number of bytes of a response body that are read and discarded, so that the connection
	// can be reused.
	maxAliveBody = 4 << 10
)

// aliveRequest is the body of a request of Alive.
type aliveRequest struct {
	ID       string `json:"id"`
	After    string `json:"after"`
	Disk     string `json:"disk"`
	Map      uint64 `json:"map"`
	Held     int    `json:"held"`
	MayWrite int64  `json:"may_write_ms"`
}

// Alive sends a call over a persistent connection. accepted reports whether the app has accepted the call.
// accepted is false without an error if the app responds with status 404, 405 or 501, because then it has
// no such hook. Any other status except 2xx is an error, because the app may still write. refused is true
// if no process listens at the address of the app. Calls must not overlap.
func (h *HTTP) Alive(ctx context.Context, call agent.AliveCall) (accepted, refused bool, err error) {
	body, _ := json.Marshal(aliveRequest{call.ID, call.PreviousID, h.Disk, uint64(call.MapEpoch), call.ShardCount, call.WriteFor.Milliseconds()}) // cannot fail for these types
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.Host+h.Path+"/"+aliveName, bytes.NewReader(body))
	if err != nil {
		return false, false, err
	}
	h.setHeaders(request, aliveName)
	response, err := h.persistentTransport().RoundTrip(request)
	if err != nil {
		isRefused := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist)
		return false, isRefused, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, maxAliveBody))
	err = errors.Join(err, response.Body.Close())
	switch status := response.StatusCode; {
	case status >= 200 && status <= 299:
		return true, false, err
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return false, false, err
	default:
		return false, false, errors.Join(err, fmt.Errorf("hooks: alive: status %d", status))
	}
}

// persistentTransport returns the transport with the persistent connection of Alive.
func (h *HTTP) persistentTransport() *http.Transport {
	if h.aliveTransport == nil {
		h.aliveTransport = &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return h.Dial(ctx) },
			Proxy:       nil, DisableCompression: true, MaxIdleConns: 1, IdleConnTimeout: aliveIdleTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
		}
	}
	return h.aliveTransport
}

// CloseAlive closes the connection of Alive. No call of Alive may be in progress.
func (h *HTTP) CloseAlive() {
	if h.aliveTransport != nil {
		h.aliveTransport.CloseIdleConnections()
	}
}
