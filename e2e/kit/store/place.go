//go:build linux

package store

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

// Errors of an operation. After any other one, whether a write was done is not
// known.
var (
	// ErrFenced reports an epoch older than the newest that the store has seen for
	// the shard. Nothing was done.
	ErrFenced = errors.New("fenced")

	errOvertaken = errors.New("overtaken")
	errClosed    = errors.New("closed")
)

// Place says on what an operation works, and for whom.
type Place struct {
	Shard uint32
	// Epoch is the ownership epoch under which the app works.
	Epoch uint64
	Key   string
	// Writer is the app that asks, Asked when it did, on the clock of history.Now.
	// It asks one thing after the other for a key; what it gave up, or what an
	// earlier process of its name sent, is not done any more once it asks again.
	Writer string
	Asked  int64
	// Unfenced asks the store to look at no epoch: as if it were one that knows none.
	Unfenced bool
}

func (p Place) query() string {
	return url.Values{
		"shard": {strconv.FormatUint(uint64(p.Shard), 10)}, "epoch": {strconv.FormatUint(p.Epoch, 10)},
		"key": {p.Key}, "writer": {p.Writer}, "asked": {strconv.FormatInt(p.Asked, 10)},
		"unfenced": {strconv.FormatBool(p.Unfenced)},
	}.Encode()
}

func parsePlace(q url.Values) (Place, error) {
	shard, err1 := strconv.ParseUint(q.Get("shard"), 10, 32)
	epoch, err2 := strconv.ParseUint(q.Get("epoch"), 10, 64)
	asked, err3 := strconv.ParseInt(q.Get("asked"), 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Place{}, fmt.Errorf("store: %w", err)
	}
	return Place{Shard: uint32(shard), Epoch: epoch, Key: q.Get("key"), Writer: q.Get("writer"), Asked: asked, Unfenced: q.Get("unfenced") == "true"}, nil
}
