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

// servesDisk is set in the environment of the processes that serve a disk.
const servesDisk = "SHARDWAY_BADISK"

// What such a process has open beside standard input, where orders come from, and
// output, where they are answered.
const (
	deviceFD = 3 + iota // /dev/fuse, of the mount
	tmpfsFD
)

// unchanged is how long the kernel may rely on what it knows about a file: nobody
// else changes it.
const unchanged = time.Hour

// order tells the server what the disk suffers from now on.
type order struct {
	// Fault begins; nil: the one there is ends, or, with Count, goes on.
	Fault *Fault `json:",omitempty"`
	Count bool   `json:",omitempty"`
}

// answer follows each order. The first one follows none: the disk is there.
type answer struct {
	// Hits is how many calls the fault has struck.
	Hits int
}

// Serve serves a disk if that is what this process was started for, and returns true
// when it is over. Else it returns false at once. It comes first in TestMain.
func Serve() bool {
	if os.Getenv(servesDisk) == "" {
		return false
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
	}
	return true
}

// serve returns when nobody gives orders any more.
func serve(orders io.Reader, answers io.Writer) error {
	s := &suffering{}
	if err := attach(s); err != nil {
		return err
	}
	in, out := json.NewDecoder(orders), json.NewEncoder(answers)
	for {
		if err := out.Encode(answer{Hits: s.count()}); err != nil {
			return err
		}
		var o order
		switch err := in.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case o.Fault != nil:
			s.begin(*o.Fault)
		case !o.Count:
			s.end()
		}
	}
}

// attach answers what the kernel asks from the tmpfs, from now on.
func attach(s *suffering) error {
	if err := unix.Fchdir(tmpfsFD); err != nil {
		return fmt.Errorf("badisk: %w", err)
	}
	root, err := fs.NewLoopbackRoot(".")
	if err != nil {
		return fmt.Errorf("badisk: %w", err)
	}
	l, ok := root.(*fs.LoopbackNode)
	if !ok {
		return fmt.Errorf("badisk: the library's root is a %T", root)
	}
	trusted := unchanged
	quiet := log.New(io.Discard, "", 0)
	_, err = fs.Mount(fmt.Sprintf("/dev/fd/%d", deviceFD), node{l, s}, &fs.Options{
		EntryTimeout: &trusted, AttrTimeout: &trusted, Logger: quiet, NullPermissions: true,
		MountOptions: fuse.MountOptions{MaxWrite: most, Logger: quiet, DisableXAttrs: true, ExplicitDataCacheControl: true},
	})
	if err != nil {
		return fmt.Errorf("badisk: serve: %w", err)
	}
	return nil
}
