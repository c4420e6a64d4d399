package persist

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// writes records what is written. A test can make writes hang or fail.
type writes struct {
	hung   chan struct{} // a write waits until it is closed; nil means no delay
	failed int           // the number of following writes that fail
	tries  int
	all    []int
}

func (w *writes) write(v int) error {
	w.tries++
	if w.hung != nil {
		<-w.hung
	}
	if w.failed > 0 {
		w.failed--
		return errors.New("no space left on device")
	}
	w.all = append(w.all, v)
	return nil
}

// persisting runs a persisted value until the returned function is called.
func persisting(t *testing.T, w *writes) (p *Value[int], end func()) {
	t.Helper()
	p = New("number", 0, w.write, zerolog.Nop())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { p.Run(ctx); close(ended) }()
	return p, func() { cancel(); <-ended }
}

func TestNewestValueIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writes{}
		p, end := persisting(t, w)
		p.Set(1)
		synctest.Wait()
		if v, _ := p.Get(); v != 1 {
			t.Errorf("stored %d, want 1", v)
		}
		p.Set(1) // unchanged
		synctest.Wait()
		end()
		p.Set(2) // too late
		if !slices.Equal(w.all, []int{1}) {
			t.Errorf("written %v, want 1 once", w.all)
		}
	})
}

func TestCallersDoNotWaitForADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writes{hung: make(chan struct{})}
		p, end := persisting(t, w)
		began := time.Now()
		for v := range 10 {
			p.Set(v + 1)
			synctest.Wait()
			if stored, _ := p.Get(); stored != 0 {
				t.Fatalf("stored %d while the disk hangs", stored)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("callers waited for %v", took)
		}
		_, changed := p.Get()
		close(w.hung)
		synctest.Wait()
		select {
		case <-changed:
		default:
			t.Error("the change was not reported")
		}
		if stored, _ := p.Get(); stored != 10 || !slices.Equal(w.all, []int{1, 10}) {
			t.Errorf("stored %d, written %v, want the first and the newest", stored, w.all)
		}
		end()
	})
}

func TestFailedWriteIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writes{failed: 3}
		p, end := persisting(t, w)
		p.Set(1)
		synctest.Wait()
		p.Set(2)
		time.Sleep(10 * time.Second)
		if stored, _ := p.Get(); stored != 2 || w.tries != 4 {
			t.Errorf("stored %d after %d tries, want 2 after 4", stored, w.tries)
		}
		end()
	})
}

func TestLastValueIsWrittenAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writes{}
		p, end := persisting(t, w)
		synctest.Wait()
		p.Set(1)
		end()
		if !slices.Equal(w.all, []int{1}) {
			t.Errorf("written %v, want 1", w.all)
		}
		w = &writes{hung: make(chan struct{})}
		p, end = persisting(t, w)
		p.Set(1)
		synctest.Wait()
		began := time.Now()
		end()
		if took := time.Since(began); took != stallTimeout {
			t.Errorf("the end waited for %v for a disk that hangs, want %v", took, stallTimeout)
		}
		close(w.hung)
	})
}
