package node_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"shardway/node"
	"shardway/node/disk"
)

// A node whose records of other disks cannot be written continues, logs that once, and tries again. Once, it stopped, although only its
// knowledge after the next start depends on the records.
func TestUnwritableDiskRecordsStopNoNode(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		log := &lines{}
		w.tune = func(o *node.Options) { o.Log = zerolog.New(log) }
		p := w.follower()
		p.kill()
		var tries atomic.Int32
		p.mem.SetFileFault(func(name string) error {
			if name != "known.json" {
				return nil
			}
			tries.Add(1)
			return errors.New("no space left on device")
		})
		p.restart()
		w.untilSettled("a", "b", "c")
		w.until("it is tried again", func() bool { return tries.Load() > 2 })
		if n := log.count("disk records not written"); p.ended() || n != 1 {
			w.t.Errorf("ended: %v (%v), said %d times, want it to go on and to say so once", p.ended(), p.err, n)
		}
		p.mem.SetFileFault(nil)
		w.until("it says that it is written", func() bool { return log.count("disk records written again") == 1 })
		p.kill()
		d, err := p.mem.Open(p.name)
		if err != nil {
			w.t.Fatal(err)
		}
		if known, err := d.DiskRecords(); err != nil || len(known) != 2 {
			w.t.Errorf("it keeps %v, %v, want the two others", known, err)
		}
		_ = d.Close()
	})
}

// A node that cannot open its records of other disks at its start reads them as soon as it can. An
// earlier version neither read nor wrote them until its next start, so new records were lost, and old
// ones had no effect.
func TestMemoryOfDisksThatCouldNotBeReadIsReadLater(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		log := &lines{}
		w.tune = func(o *node.Options) { o.Log = zerolog.New(log) }
		p := w.follower()
		p.terminate()
		gone := disk.DiskRecord{Server: "z/old", Boot: 7, Nonce: 1, Term: 1, Applied: 2}
		p.keeps(func(d *disk.Dir, kept []disk.DiskRecord) error { return d.StoreDiskRecords(append(kept, gone)) })
		p.mem.SetReadFault(func(name string) error {
			if name == "known.json" {
				return syscall.EMFILE
			}
			return nil
		})
		p.restart()
		w.untilSettled("a", "b", "c")
		p.mem.SetReadFault(nil)
		w.until("it says that it is written", func() bool { return log.count("disk records written again") == 1 })
		if n := log.count("disk records reset"); n != 1 {
			w.t.Errorf("it said %d times that it starts a new one, want once", n)
		}
		p.kill()
		if got := p.keeps(nil); len(got) != 3 || !slices.Contains(got, gone) {
			w.t.Errorf("it keeps %v, want the two others and the earlier record", got)
		}
	})
}

// keeps returns the records of other disks that the disk of a stopped node contains. change, if not nil, may change them.
func (p *process) keeps(change func(d *disk.Dir, kept []disk.DiskRecord) error) []disk.DiskRecord {
	p.w.t.Helper()
	d, err := p.mem.Open(p.name)
	if err != nil {
		p.w.t.Fatal(err)
	}
	kept, err := d.DiskRecords()
	if err == nil && change != nil {
		err = change(d, kept)
	}
	if err = errors.Join(err, d.Close()); err != nil {
		p.w.t.Fatal(err)
	}
	return kept
}
