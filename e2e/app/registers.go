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
const storePatience = 10 * time.Second

// registers is the state that the app keeps for its keys, with the faith in its
// proxy that users' apps have: it never asks whether it still is the owner. What
// an older epoch asks for is done on that epoch's own memory. Only the store
// fences, so a second owner or a stale epoch shows in what clients read.
type registers struct {
	store *store.Client

	mu   sync.Mutex
	kept map[slot]*cell
}

// slot is where a register is kept: each ownership epoch has memory of its own,
// which starts empty.
type slot struct {
	shard uint32
	epoch uint64
	key   string
}

// cell is one key's value under one ownership epoch.
type cell struct {
	// turn holds one token; whoever took it works on the fields below, and may
	// wait for the store meanwhile.
	turn chan struct{}

	value string
	// loaded tells that value is what the store has: it was read from there, or
	// written through.
	loaded bool
	at     int64 // of the last call of the store
}

func newRegisters(s *store.Client) *registers {
	return &registers{store: s, kept: make(map[slot]*cell)}
}

// do is the operation that a request asks for. ok is false if the client left
// before it began, or before it could be told of its end.
func (rs *registers) do(r *http.Request, run history.Run, body string) (res result, ok bool) {
	mode := r.Header.Get("App-Register")
	if rs == nil || mode != "memory" && mode != "store" && mode != "unfenced" {
		return failed(http.StatusBadRequest, fmt.Errorf("no registers, or none in %q", mode)), true
	}
	write := !(&history.Answer{Method: r.Method}).Safe()
	if write && !good(body) {
		return failed(http.StatusBadRequest, fmt.Errorf("value %q is not 1 to %d bytes of printable ASCII", body, store.MaxValue)), true
	}
	c := rs.cell(slot{shard: run.Shard, epoch: run.Epoch, key: run.Key})
	select {
	case <-c.turn:
	case <-r.Context().Done():
		return result{}, false
	}
	defer func() { c.turn <- struct{}{} }()
	place := func() store.Place { return rs.next(c, run, mode == "unfenced") }
	// What was begun at the store is brought to its end, whether the client waits
	// or not: a proxy can close a connection, not stop a thread.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storePatience)
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
		res.read = true
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
func (rs *registers) next(c *cell, run history.Run, unfenced bool) store.Place {
	c.at = max(c.at+1, history.Now())
	return store.Place{Shard: run.Shard, Epoch: run.Epoch, Key: run.Key, Writer: run.App, Asked: c.at, Unfenced: unfenced}
}

func (rs *registers) cell(at slot) *cell {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	c, ok := rs.kept[at]
	if !ok {
		c = &cell{turn: make(chan struct{}, 1)} // one token
		c.turn <- struct{}{}
		rs.kept[at] = c
	}
	return c
}

// good tells whether a value survives in a header as it is.
func good(value string) bool {
	return value != "" && len(value) <= store.MaxValue &&
		!strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' })
}
