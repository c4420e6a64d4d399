//go:build linux

package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"shardway/e2e/kit/history"
	"shardway/e2e/kit/store"
)

func listen(t *testing.T) (*store.Store, *store.Client) {
	t.Helper()
	s, err := store.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := store.NewClient(s.URL())
	t.Cleanup(func() {
		c.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, c
}

// at returns a place in shard 7, with the current time.
func at(epoch uint64, key string) store.OpKey {
	return store.OpKey{Shard: 7, Epoch: epoch, Key: key, Writer: "a", CallTime: history.Now()}
}

func wants(t *testing.T, c *store.Client, p store.OpKey, want string) {
	t.Helper()
	if got, err := c.Read(t.Context(), p); err != nil || got != want {
		t.Errorf("key %q at epoch %d reads %q, %v, want %q", p.Key, p.Epoch, got, err, want)
	}
}

func writes(t *testing.T, c *store.Client, p store.OpKey, value string) {
	t.Helper()
	if err := c.Write(t.Context(), p, value); err != nil {
		t.Fatalf("key %q at epoch %d: %v", p.Key, p.Epoch, err)
	}
}

func TestOlderEpochIsRefused(t *testing.T) {
	s, c := listen(t)
	wants(t, c, at(5, "k"), "")
	writes(t, c, at(5, "k"), "five")
	wants(t, c, at(5, "k"), "five")
	wants(t, c, at(9, "other"), "") // a read with a newer epoch fences the shard
	if err := c.Write(t.Context(), at(8, "k"), "eight"); !errors.Is(err, store.ErrFenced) {
		t.Errorf("write under an older epoch: %v", err)
	}
	if _, err := c.Read(t.Context(), at(5, "k")); !errors.Is(err, store.ErrFenced) {
		t.Errorf("read under an older epoch: %v", err)
	}
	elsewhere := at(5, "elsewhere")
	elsewhere.Shard = 8
	writes(t, c, elsewhere, "eighth shard")
	wants(t, c, at(9, "k"), "five")
	writes(t, c, at(10, "k"), "ten")
	wants(t, c, at(10, "k"), "ten")
	if s.FencedCount() != 2 {
		t.Errorf("%d refused, want 2", s.FencedCount())
	}
	var log []string
	for _, a := range s.Applied() {
		log = append(log, fmt.Sprintf("%d/%d %s=%s by %s", a.Shard, a.Epoch, a.Key, a.Value, a.Writer))
		if a.At == 0 || a.At > history.Now() {
			t.Errorf("applied at %d", a.At)
		}
	}
	if want := "7/5 k=five by a, 8/5 elsewhere=eighth shard by a, 7/10 k=ten by a"; strings.Join(log, ", ") != want {
		t.Errorf("applied %q, want %q", strings.Join(log, ", "), want)
	}
}

// All operations on a key are unfenced: the last write counts, with any epoch, and the
// store records no epoch.
func TestUnfencedIgnoresEpoch(t *testing.T) {
	s, c := listen(t)
	open := func(epoch uint64) store.OpKey {
		p := at(epoch, "k")
		p.Unfenced = true
		return p
	}
	writes(t, c, open(9), "nine")
	writes(t, c, open(5), "five")
	wants(t, c, open(9), "five")
	writes(t, c, at(6, "fenced"), "six") // unfenced operations fence nothing
	if err := c.Write(t.Context(), at(5, "fenced"), "late"); !errors.Is(err, store.ErrFenced) {
		t.Errorf("write under an older epoch: %v", err)
	}
	if n := s.FencedCount(); n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
}

// An app abandons a write, which arrives after its next request. If the store applied it,
// the memory of the app would be wrong.
func TestOvertakenWriteHasNoEffect(t *testing.T) {
	s, c := listen(t)
	late := at(5, "k")
	wants(t, c, at(5, "k"), "")
	if err := c.Write(t.Context(), late, "late"); err == nil || errors.Is(err, store.ErrFenced) {
		t.Errorf("overtaken write: %v", err)
	}
	wants(t, c, at(5, "k"), "")
	late.Writer = "b" // another app has its own order
	writes(t, c, late, "of b")
	if err := c.Write(t.Context(), late, "again"); err == nil {
		t.Error("one and the same write was done twice")
	}
	late.Writer, late.Epoch = "a", 6
	writes(t, c, late, "of six")
	if n := len(s.Applied()); n != 2 {
		t.Errorf("%d writes applied, want 2", n)
	}
}

// A request is interrupted in the middle of its body.
func TestIncompleteRequestHasNoEffect(t *testing.T) {
	s, c := listen(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err = fmt.Fprint(conn, "POST /?shard=7&epoch=9&key=k&writer=a&asked=1 HTTP/1.1\r\nHost: s\r\nContent-Length: 4\r\n\r\nhal"); err != nil {
		t.Fatal(err)
	}
	half, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("connection is a %T", conn)
	}
	if err = half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("answer = %+v, %v", resp, err)
	}
	_ = resp.Body.Close()
	wants(t, c, at(5, "k"), "") // its epoch was not recorded either
	if n := len(s.Applied()); n != 0 {
		t.Errorf("%d writes applied, want none", n)
	}
}

func TestInvalidRequestsHaveNoEffect(t *testing.T) {
	s, c := listen(t)
	if err := c.Write(t.Context(), at(5, "k"), strings.Repeat("x", store.MaxValue+1)); err == nil {
		t.Error("a value that is too long was taken")
	}
	for _, query := range []string{"", "?shard=1&epoch=x&asked=1", "?shard=-1&epoch=2&asked=1", "?shard=1&epoch=2"} {
		resp, err := http.Post(s.URL()+"/"+query, "", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %d", query, resp.StatusCode)
		}
	}
	if n := len(s.Applied()); n != 0 {
		t.Errorf("%d writes applied, want none", n)
	}
}

func TestClosedStoreRejectsOperations(t *testing.T) {
	s, c := listen(t)
	writes(t, c, at(5, "k"), "v")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), at(5, "k"), "w"); err == nil || errors.Is(err, store.ErrFenced) {
		t.Errorf("write to a closed store: %v", err)
	}
	if n := len(s.Applied()); n != 1 {
		t.Errorf("%d writes applied, want 1", n)
	}
}

// Writers use all epochs at once.
func TestEpochsOnlyGrowInTheLog(t *testing.T) {
	s, c := listen(t)
	var writers sync.WaitGroup
	for e := range uint64(8) {
		writers.Go(func() {
			for i := range 20 {
				err := c.Write(t.Context(), at(e+1, fmt.Sprintf("k%d", e)), fmt.Sprintf("%d-%d", e, i))
				if err != nil && !errors.Is(err, store.ErrFenced) {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	log := s.Applied()
	if len(log)+s.FencedCount() != 8*20 || len(log) < 20 {
		t.Errorf("%d applied and %d refused of %d", len(log), s.FencedCount(), 8*20)
	}
	for i := 1; i < len(log); i++ {
		if log[i].Epoch < log[i-1].Epoch || log[i].At < log[i-1].At {
			t.Errorf("%+v was applied after %+v", log[i], log[i-1])
		}
	}
}
