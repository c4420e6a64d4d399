package logs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"

	"shardway/node/logs"
)

func lines(t *testing.T, b *bytes.Buffer) []map[string]any {
	t.Helper()
	var out []map[string]any
	for s := range strings.Lines(b.String()) {
		m := map[string]any{}
		if err := json.Unmarshal([]byte(s), &m); err != nil {
			t.Fatalf("line %q: %v", s, err)
		}
		out = append(out, m)
	}
	return out
}

func TestPairsBecomeFields(t *testing.T) {
	var b bytes.Buffer
	l := logs.Hclog(zerolog.New(&b).Level(zerolog.TraceLevel), "raft")
	l.Error("failed to heartbeat to", "peer", "n-a/d", "error", errors.New("refused"), "n", 3, "servers", hclog.Fmt("%d of %d", 1, 2), "took", time.Second)
	got := lines(t, &b)
	if len(got) != 1 {
		t.Fatalf("%d lines, want 1: %s", len(got), b.String())
	}
	want := map[string]any{
		"level": "warn", "lib": "raft", "message": "failed to heartbeat to", "peer": "n-a/d",
		"error": "refused", "n": 3.0, "servers": "1 of 2", "took": "1s",
	}
	for k, v := range want {
		if got[0][k] != v {
			t.Errorf("field %s = %v, want %v", k, got[0][k], v)
		}
	}
}

func TestLevelsAreLowered(t *testing.T) {
	var b bytes.Buffer
	l := logs.Hclog(zerolog.New(&b).Level(zerolog.InfoLevel), "raft")
	l.Debug("a")
	l.Info("b")
	l.Warn("c")
	// Once, each stop of a node logged warnings about the streams that it had closed.
	l.Error("failed to decode incoming command", "error", &net.OpError{Op: "raw-read", Net: "tcp", Err: net.ErrClosed})
	l.Error("failed to decode incoming command", "error", fmt.Errorf("read frame: %w", io.ErrClosedPipe))
	if b.Len() != 0 {
		t.Fatalf("wrote %q at info, want nothing", b.String())
	}
}

func TestStandardLoggerKeepsTheLevel(t *testing.T) {
	var b bytes.Buffer
	l := logs.Std(zerolog.New(&b).Level(zerolog.DebugLevel), "memberlist")
	l.Printf("[ERR] memberlist: push/pull with %s: refused", "n-a")
	l.Printf("[INFO] serf: joined")
	got := lines(t, &b)
	if len(got) != 2 || got[0]["level"] != "warn" || got[1]["level"] != "debug" {
		t.Fatalf("lines %v, want one warn and one debug", got)
	}
	if got[0]["message"] != "memberlist: push/pull with n-a: refused" {
		t.Errorf("message %q", got[0]["message"])
	}
}

func TestRepeatedErrorsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := logs.Hclog(zerolog.New(&b).Level(zerolog.InfoLevel), "raft")
		for range 100 {
			l.Error("failed to heartbeat to")
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		l.Error("failed to heartbeat to")
		got := lines(t, &b)
		if len(got) != 2 || got[1]["suppressed"] != 99.0 {
			t.Fatalf("lines %v, want two, the second with suppressed 99", got)
		}
	})
}
