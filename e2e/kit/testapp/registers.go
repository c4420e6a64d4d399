//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"sync"
	"time"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/store"
)

// storeTimeout limits one call of the store.
const storeTimeout = 10 * time.Second

// registers contains one register per key. Like an ordinary app, it trusts the proxy and never checks
// whether it is still the owner: a request of an older epoch uses the memory of that epoch. Only the
// store rejects outdated epochs. So clients read wrong values if a shard has a second owner, or if a
// request has an outdated epoch.
type registers struct {
	store *store.Client

	mu    sync.Mutex // protects cells
	cells map[cellKey]*registerCell
}

// cellKey identifies a register in memory. Each ownership epoch has separate memory, which is
// empty at first.
type cellKey struct {
	shard uint32
	epoch uint64
	key   string
}

// registerCell is the value of one key in one ownership epoch.
type registerCell struct {
	// lock protects the following fields. It contains one element, and the operation that has
	// received this element may use the fields, also while it waits for the store. A channel lets
	// an operation give up when its client disconnects.
	lock chan struct{}

	value string
	// loaded is true if value was read from the store or written to it.
	loaded   bool
	lastCall int64 // time of the last call of the store, a value of history.Now
}

func newRegisters(client *store.Client) *registers {
	return &registers{store: client, cells: make(map[cellKey]*registerCell)}
}

// serve runs the register operation that r requests. ok is false if the client disconnected before
// the operation started or before its result was available.
func (rs *registers) serve(r *http.Request, run history.Run, body string) (opResult result, ok bool) {
	mode := r.Header.Get("App-Register")
	if rs == nil || !isRegisterMode(mode) {
		return failureResult(http.StatusBadRequest, fmt.Errorf("unknown register mode %q, or no --store", mode)), true
	}
	isWrite := !(&history.Response{Method: r.Method}).Safe()
	if isWrite && !isValidValue(body) {
		return failureResult(http.StatusBadRequest, fmt.Errorf("value %q is not 1 to %d bytes of printable ASCII", body, store.MaxValue)), true
	}
	cell := rs.getCell(cellKey{shard: run.Shard, epoch: run.Epoch, key: run.Key})
	select {
	case <-cell.lock:
	case <-r.Context().Done():
		return result{}, false
	}
	defer func() { cell.lock <- struct{}{} }()
	// A store operation continues when the client disconnects: a proxy can close a connection, but
	// it cannot stop a thread of the app.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storeTimeout)
	defer cancel()
	nextKey := func() store.OpKey { return rs.nextOpKey(cell, run, mode == "unfenced") }
	if isWrite {
		opResult = resultOf("", rs.write(ctx, cell, nextKey(), body))
	} else {
		opResult = resultOf(rs.readByMode(ctx, cell, mode, nextKey))
		opResult.isRead = opResult.status == 0
	}
	return opResult, r.Context().Err() == nil
}

// isRegisterMode reports whether App-Register may have this value.
func isRegisterMode(mode string) bool {
	return mode == "memory" || mode == "store" || mode == "unfenced"
}

// resultOf returns the result of a store operation: 409 if the store rejected the epoch, and 503 for
// other errors.
func resultOf(value string, err error) result {
	switch {
	case errors.Is(err, store.ErrFenced):
		return failureResult(http.StatusConflict, err)
	case err != nil:
		return failureResult(http.StatusServiceUnavailable, err)
	}
	return result{value: value}
}

// readByMode reads the value from the store in the mode "store", and from memory otherwise.
func (rs *registers) readByMode(ctx context.Context, cell *registerCell, mode string, nextKey func() store.OpKey) (string, error) {
	if mode == "store" {
		return rs.store.Read(ctx, nextKey())
	}
	return rs.read(ctx, cell, nextKey)
}

// write writes the value to the store, then to memory. If the store does not confirm the write,
// the cell is no longer loaded, because the store may have either value.
func (rs *registers) write(ctx context.Context, cell *registerCell, key store.OpKey, value string) error {
	err := rs.store.Write(ctx, key, value)
	switch {
	case err == nil:
		cell.value, cell.loaded = value, true
	case !errors.Is(err, store.ErrFenced):
		cell.loaded = false
	}
	return err
}

// read returns the value in memory. It loads the value from the store at the first operation.
func (rs *registers) read(ctx context.Context, cell *registerCell, nextKey func() store.OpKey) (string, error) {
	if !cell.loaded {
		value, err := rs.store.Read(ctx, nextKey())
		if err != nil {
			return "", err
		}
		cell.value, cell.loaded = value, true
	}
	return cell.value, nil
}

// nextOpKey returns the store address of the next call for the cell, with a call time later than
// that of the previous call. The caller must hold the lock of the cell.
func (rs *registers) nextOpKey(cell *registerCell, run history.Run, unfenced bool) store.OpKey {
	cell.lastCall = max(cell.lastCall+1, history.Now())
	return store.OpKey{Shard: storeShard(run), Epoch: run.Epoch, Key: run.Key, Writer: run.App, CallTime: cell.lastCall, Unfenced: unfenced}
}

// getCell returns the cell of a key and creates it if necessary.
func (rs *registers) getCell(key cellKey) *registerCell {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	cell, ok := rs.cells[key]
	if !ok {
		cell = &registerCell{lock: make(chan struct{}, 1)}
		cell.lock <- struct{}{}
		rs.cells[key] = cell
	}
	return cell
}

// isValidValue reports whether value has 1 to store.MaxValue bytes of printable ASCII, which a
// header transports unchanged.
func isValidValue(value string) bool {
	return value != "" && len(value) <= store.MaxValue &&
		!strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' })
}

// storeShard returns the number of the shard of a run in the store, which all services use. It differs for equal
// shards of two services, because their epochs are independent.
func storeShard(run history.Run) uint32 {
	if run.Service == "" {
		return run.Shard
	}
	const maxShards = 1 << 16
	return run.Shard + maxShards*(1+crc32.ChecksumIEEE([]byte(run.Service))%(maxShards-1))
}
