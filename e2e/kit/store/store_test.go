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
	registerStore, err := store.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client := store.NewClient(registerStore.URL())
	t.Cleanup(func() {
		client.Close()
		if err := registerStore.Close(); err != nil {
			t.Error(err)
		}
	})
	return registerStore, client
}

// at returns a place in shard 7, with the current time.
func at(epoch uint64, key string) store.OpKey {
	return store.OpKey{Shard: 7, Epoch: epoch, Key: key, Writer: "a", CallTime: history.Now()}
}

func wants(t *testing.T, client *store.Client, op store.OpKey, want string) {
	t.Helper()
	if got, err := client.Read(t.Context(), op); err != nil || got != want {
		t.Errorf("key %q at epoch %d reads %q, %v, want %q", op.Key, op.Epoch, got, err, want)
	}
}

func writes(t *testing.T, client *store.Client, op store.OpKey, value string) {
	t.Helper()
	if err := client.Write(t.Context(), op, value); err != nil {
		t.Fatalf("key %q at epoch %d: %v", op.Key, op.Epoch, err)
	}
}

func TestOlderEpochIsRefused(t *testing.T) {
	registerStore, client := listen(t)
	wants(t, client, at(5, "k"), "")
	writes(t, client, at(5, "k"), "five")
	wants(t, client, at(5, "k"), "five")
	wants(t, client, at(9, "other"), "") // a read with a newer epoch fences the shard
	if err := client.Write(t.Context(), at(8, "k"), "eight"); !errors.Is(err, store.ErrFenced) {
		t.Errorf("write under an older epoch: %v", err)
	}
	if _, err := client.Read(t.Context(), at(5, "k")); !errors.Is(err, store.ErrFenced) {
		t.Errorf("read under an older epoch: %v", err)
	}
	elsewhere := at(5, "elsewhere")
	elsewhere.Shard = 8
	writes(t, client, elsewhere, "eighth shard")
	wants(t, client, at(9, "k"), "five")
	writes(t, client, at(10, "k"), "ten")
	wants(t, client, at(10, "k"), "ten")
	if registerStore.FencedCount() != 2 {
		t.Errorf("%d refused, want 2", registerStore.FencedCount())
	}
	var log []string
	for _, a := range registerStore.Applied() {
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
	registerStore, client := listen(t)
	open := func(epoch uint64) store.OpKey {
		op := at(epoch, "k")
		op.Unfenced = true
		return op
	}
	writes(t, client, open(9), "nine")
	writes(t, client, open(5), "five")
	wants(t, client, open(9), "five")
	writes(t, client, at(6, "fenced"), "six") // unfenced operations fence nothing
	if err := client.Write(t.Context(), at(5, "fenced"), "late"); !errors.Is(err, store.ErrFenced) {
		t.Errorf("write under an older epoch: %v", err)
	}
	if n := registerStore.FencedCount(); n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
}

// An app abandons a write, which arrives after its next request. If the store applied it,
// the memory of the app would be wrong.
func TestOvertakenWriteHasNoEffect(t *testing.T) {
	registerStore, client := listen(t)
	late := at(5, "k")
	wants(t, client, at(5, "k"), "")
	if err := client.Write(t.Context(), late, "late"); err == nil || errors.Is(err, store.ErrFenced) {
		t.Errorf("overtaken write: %v", err)
	}
	wants(t, client, at(5, "k"), "")
	late.Writer = "b" // another app has its own order
	writes(t, client, late, "of b")
	if err := client.Write(t.Context(), late, "again"); err == nil {
		t.Error("one and the same write was done twice")
	}
	late.Writer, late.Epoch = "a", 6
	writes(t, client, late, "of six")
	if n := len(registerStore.Applied()); n != 2 {
		t.Errorf("%d writes applied, want 2", n)
	}
}

// A request is interrupted in the middle of its body.
func TestIncompleteRequestHasNoEffect(t *testing.T) {
	registerStore, client := listen(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(registerStore.URL(), "http://"))
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
	wants(t, client, at(5, "k"), "") // its epoch was not recorded either
	if n := len(registerStore.Applied()); n != 0 {
		t.Errorf("%d writes applied, want none", n)
	}
}

func TestInvalidRequestsHaveNoEffect(t *testing.T) {
	registerStore, client := listen(t)
	if err := client.Write(t.Context(), at(5, "k"), strings.Repeat("x", store.MaxValue+1)); err == nil {
		t.Error("a value that is too long was taken")
	}
	for _, query := range []string{"", "?shard=1&epoch=x&asked=1", "?shard=-1&epoch=2&asked=1", "?shard=1&epoch=2"} {
		resp, err := http.Post(registerStore.URL()+"/"+query, "", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %d", query, resp.StatusCode)
		}
	}
	if n := len(registerStore.Applied()); n != 0 {
		t.Errorf("%d writes applied, want none", n)
	}
}

func TestClosedStoreRejectsOperations(t *testing.T) {
	registerStore, client := listen(t)
	writes(t, client, at(5, "k"), "v")
	if err := registerStore.Close(); err != nil {
		t.Fatal(err)
	}
	if err := client.Write(t.Context(), at(5, "k"), "w"); err == nil || errors.Is(err, store.ErrFenced) {
		t.Errorf("write to a closed store: %v", err)
	}
	if n := len(registerStore.Applied()); n != 1 {
		t.Errorf("%d writes applied, want 1", n)
	}
}

// Writers use all epochs at once.
func TestEpochsOnlyGrowInTheLog(t *testing.T) {
	registerStore, client := listen(t)
	var writers sync.WaitGroup
	for epoch := range uint64(8) {
		writers.Go(func() {
			for i := range 20 {
				err := client.Write(t.Context(), at(epoch+1, fmt.Sprintf("k%d", epoch)), fmt.Sprintf("%d-%d", epoch, i))
				if err != nil && !errors.Is(err, store.ErrFenced) {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	log := registerStore.Applied()
	if len(log)+registerStore.FencedCount() != 8*20 || len(log) < 20 {
		t.Errorf("%d applied and %d refused of %d", len(log), registerStore.FencedCount(), 8*20)
	}
	for i := 1; i < len(log); i++ {
		if log[i].Epoch < log[i-1].Epoch || log[i].At < log[i-1].At {
			t.Errorf("%+v was applied after %+v", log[i], log[i-1])
		}
	}
}
