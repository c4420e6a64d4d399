package leaderloop

import (
	"errors"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
)

func TestCommandsForTheRegistryAreLimited(t *testing.T) {
	l := newRegistryLimit()
	now := l.at
	wantBusy := func(size int, want string) {
		t.Helper()
		if err := l.start(now, size); !errors.Is(err, api.ErrBusy) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want busy with %q", err, want)
		}
	}
	for range maxRegistryInFlight {
		if err := l.start(now, 10); err != nil {
			t.Fatal(err)
		}
	}
	wantBusy(10, "64 commands for the registry are in flight")
	for range maxRegistryInFlight {
		l.end(10)
	}
	if err := l.start(now, maxRegistryBytes-10); err != nil {
		t.Fatal(err)
	}
	wantBusy(11, "the limit is 1048576")
	l.end(maxRegistryBytes - 10)
	for used := maxRegistryInFlight + 1; used < registryRate; used++ {
		if err := l.start(now, 10); err != nil {
			t.Fatalf("command %d: %v", used, err)
		}
		l.end(10)
	}
	wantBusy(10, "more than 2000 commands per second")
	now = now.Add(registryBurst)
	for range registryByteRate / maxRegistryBytes {
		if err := l.start(now, maxRegistryBytes); err != nil {
			t.Fatal(err)
		}
		l.end(maxRegistryBytes)
	}
	wantBusy(100, "more than 8388608 bytes per second")
	now = now.Add(time.Millisecond)
	if err := l.start(now, 100); err != nil {
		t.Errorf("after a pause: %v", err)
	}
}
