//go:build linux

package store

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

// Errors of an operation. After any other error, the effect of a write is unknown.
var (
	// ErrFenced reports an epoch older than the newest epoch of the shard. The operation
	// had no effect.
	ErrFenced = errors.New("fenced")

	errOutOfOrder = errors.New("overtaken")
	errClosed     = errors.New("closed")
)

// OpKey is the subject and the author of an operation.
type OpKey struct {
	Shard uint32
	// Epoch is the ownership epoch of the app.
	Epoch uint64
	Key   string
	// Writer is the name of the app, and CallTime the time of its request, a value of history.Now.
	// The store executes the requests of an app for a key in the order of their times. It rejects a
	// request that the app has abandoned, or that an earlier process of the app sent, if it arrives
	// after a later request.
	Writer   string
	CallTime int64
	// Unfenced disables the check of the epoch.
	Unfenced bool
}

func (p OpKey) query() string {
	return url.Values{
		"shard": {strconv.FormatUint(uint64(p.Shard), 10)}, "epoch": {strconv.FormatUint(p.Epoch, 10)},
		"key": {p.Key}, "writer": {p.Writer}, "asked": {strconv.FormatInt(p.CallTime, 10)},
		"unfenced": {strconv.FormatBool(p.Unfenced)},
	}.Encode()
}

func parseOpKey(query url.Values) (OpKey, error) {
	shard, err1 := strconv.ParseUint(query.Get("shard"), 10, 32)
	epoch, err2 := strconv.ParseUint(query.Get("epoch"), 10, 64)
	asked, err3 := strconv.ParseInt(query.Get("asked"), 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return OpKey{}, fmt.Errorf("store: %w", err)
	}
	return OpKey{Shard: uint32(shard), Epoch: epoch, Key: query.Get("key"), Writer: query.Get("writer"), CallTime: asked, Unfenced: query.Get("unfenced") == "true"}, nil
}
