package process_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"shardway/config"
	"shardway/node/process"
)

// A start with a full disk must not open and close ports, because this resets client connections.
// The port in this test is in use, so the error shows whether the data directory was opened first.
func TestDataDirectoryIsOpenedBeforeThePorts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "full")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	addr := taken.Addr().String()
	start := func(data string) error {
		c, err := config.Load([]string{
			"--data", data, "--key", "header:X-Shard-Key",
			"--listen", addr, "--peer", "127.0.0.1:26901", "--admin", "127.0.0.1:26902", "--gossip", "127.0.0.1:26903",
		}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err = process.New(ctx, &c, "test", zerolog.Nop())
		return err
	}
	if err := start(filepath.Join(file, "data")); err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), addr) {
		t.Errorf("without a data directory, and with a taken port: %v, want an error about the directory", err)
	}
	data := filepath.Join(t.TempDir(), "data")
	for range 2 { // the second start must find the lock released
		if err := start(data); err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("with a taken port: %v, want an error that names it", err)
		}
	}
}
