//go:build linux

package faultfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// serverVariable is set in the environment of the processes that serve a disk.
const serverVariable = "SHARDWAY_E2E_FAULTFS"

// File descriptors of such a process. It reads commands from standard input, and writes
// its replies to standard output.
const (
	deviceFD = 3 + iota // /dev/fuse of the mount
	tmpfsFD
)

// cacheTimeout is how long the kernel may cache file attributes. No other process changes
// the files.
const cacheTimeout = time.Hour

// command is sent by the test to the disk server.
type command struct {
	// Fault replaces the current fault. If it is nil, the current fault is cleared, unless QueryHits is set.
	Fault     *Fault `json:",omitempty"`
	QueryHits bool   `json:",omitempty"`
}

// reply follows each command. The first reply has no command: it reports that the disk is
// ready.
type reply struct {
	// Hits is the number of calls affected by the current fault.
	Hits int
}

// Serve runs the disk server if a test started this process as one, and returns true once the test has closed the disk.
// In any other process, it returns false immediately. TestMain must call it before running the tests.
func Serve() bool {
	if os.Getenv(serverVariable) == "" {
		return false
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
	}
	return true
}

// serve serves a disk and executes the parent process's commands until commands is closed.
func serve(commands io.Reader, replies io.Writer) error {
	faultInjector := &injector{}
	if err := serveRequests(faultInjector); err != nil {
		return err
	}
	decoder, encoder := json.NewDecoder(commands), json.NewEncoder(replies)
	for {
		if err := encoder.Encode(reply{Hits: faultInjector.count()}); err != nil {
			return err
		}
		var next command
		switch err := decoder.Decode(&next); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case next.Fault != nil:
			faultInjector.begin(*next.Fault)
		case !next.QueryHits:
			faultInjector.end()
		}
	}
}

// serveRequests starts serving the kernel's requests from the files of the tmpfs. Sync calls go through the injector.
func serveRequests(faultInjector *injector) error {
	if err := unix.Fchdir(tmpfsFD); err != nil {
		return fmt.Errorf("faultfs: %w", err)
	}
	root, err := fs.NewLoopbackRoot(".")
	if err != nil {
		return fmt.Errorf("faultfs: %w", err)
	}
	loopback, ok := root.(*fs.LoopbackNode)
	if !ok {
		return fmt.Errorf("faultfs: the library's root is a %T", root)
	}
	timeout := cacheTimeout
	silent := log.New(io.Discard, "", 0)
	_, err = fs.Mount(fmt.Sprintf("/dev/fd/%d", deviceFD), node{loopback, faultInjector}, &fs.Options{
		EntryTimeout: &timeout, AttrTimeout: &timeout, Logger: silent, NullPermissions: true,
		MountOptions: fuse.MountOptions{MaxWrite: maxIO, Logger: silent, DisableXAttrs: true, ExplicitDataCacheControl: true},
	})
	if err != nil {
		return fmt.Errorf("faultfs: serve: %w", err)
	}
	return nil
}
