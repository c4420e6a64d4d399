//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"shardway/e2e/history"
	"shardway/e2e/store"
)

// storePatience bounds one call of the store.
const storeTimeout = 10 * time.Second

// registers is the state that the app keeps for its keys, with the faith in its
// proxy that users' apps have: it never asks whether it still is the owner. What
// an older epoch asks for is done on that epoch's own memory. Only the store
// fences, so a second owner or a stale epoch shows in what clients read.
type registers struct {
	store *store.Client

	mu   sync.Mutex
	cells map[cellKey]*cell
}

// slot is where a register is kept: each ownership epoch has memory of its own,
// which starts empty.
type cellKey struct {
	shard uint32
	epoch uint64
	key   string
}

// cell is one key's value under one ownership epoch.
type cell struct {
	// turn holds one token; whoever took it works on the fields below, and may
	// wait for the store meanwhile.
	token chan struct{}

	value string
	// loaded tells that value is what the store has: it was read from there, or
	// written through.
	loaded bool
	lastCall     int64 // of the last call of the store
}

func newRegisters(s *store.Client) *registers {
	return &registers{store: s, cells: make(map[cellKey]*cell)}
}

// do is the operation that a request asks for. ok is false if the client left
// before it began, or before it could be told of its end.
func (rs *registers) serve(r *http.Request, run history.Run, body string) (res result, ok bool) {
	mode := r.Header.Get("App-Register")
	if rs == nil || mode != "memory" && mode != "store" && mode != "unfenced" {
		return failed(http.StatusBadRequest, fmt.Errorf("no registers, or none in %q", mode)), true
	}
	write := !(&history.Answer{Method: r.Method}).Safe()
	if write && !isValidValue(body) {
		return failed(http.StatusBadRequest, fmt.Errorf("value %q is not 1 to %d bytes of printable ASCII", body, store.MaxValue)), true
	}
	c := rs.cell(cellKey{shard: run.Shard, epoch: run.Epoch, key: run.Key})
	select {
	case <-c.token:
	case <-r.Context().Done():
		return result{}, false
	}
	defer func() { c.token <- struct{}{} }()
	place := func() store.Place { return rs.nextPlace(c, run, mode == "unfenced") }
	// What was begun at the store is brought to its end, whether the client waits
	// or not: a proxy can close a connection, not stop a thread.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storeTimeout)
	defer cancel()
	var err error
	switch {
	case write:
		err = rs.write(ctx, c, place(), body)
	case mode == "store":
		res.value, err = rs.store.Read(ctx, place())
	default:
		res.value, err = rs.read(ctx, c, place)
	}
	switch {
	case errors.Is(err, store.ErrFenced):
		res = failed(http.StatusConflict, err)
	case err != nil:
		res = failed(http.StatusServiceUnavailable, err)
	case !write:
		res.hasValue = true
	}
	return res, r.Context().Err() == nil
}

// write goes through to the store before anybody is told of it.
func (rs *registers) write(ctx context.Context, c *cell, at store.Place, value string) error {
	err := rs.store.Write(ctx, at, value)
	switch {
	case err == nil:
		c.value, c.loaded = value, true
	case !errors.Is(err, store.ErrFenced):
		c.loaded = false // who knows what the store has
	}
	return err
}

// read answers from memory, which is loaded at the first touch.
func (rs *registers) read(ctx context.Context, c *cell, place func() store.Place) (string, error) {
	if !c.loaded {
		value, err := rs.store.Read(ctx, place())
		if err != nil {
			return "", err
		}
		c.value, c.loaded = value, true
	}
	return c.value, nil
}

// next is called by whoever has the register's turn.
func (rs *registers) nextPlace(c *cell, run history.Run, unfenced bool) store.Place {
	c.lastCall = max(c.lastCall+1, history.Now())
	return store.Place{Shard: run.Shard, Epoch: run.Epoch, Key: run.Key, Writer: run.App, Asked: c.lastCall, Unfenced: unfenced}
}

func (rs *registers) cell(at cellKey) *cell {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	c, ok := rs.cells[at]
	if !ok {
		c = &cell{token: make(chan struct{}, 1)} // one token
		c.token <- struct{}{}
		rs.cells[at] = c
	}
	return c
}

// good tells whether a value survives in a header as it is.
func isValidValue(value string) bool {
	return value != "" && len(value) <= store.MaxValue &&
		!strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' })
}
