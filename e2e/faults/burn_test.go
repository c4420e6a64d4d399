//go:build linux

package faults_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// burnVariable turns this binary into a burner instead of a test.
const burnVariable = "SHARDWAY_FAULTS_BURN"

func TestMain(m *testing.M) {
	if os.Getenv(burnVariable) != "" {
		burn(os.Stdin)
		return
	}
	m.Run()
}

// burn keeps every core busy for the share of the time in the last line of its input, in
// steps of 10 ms, until the end of the input.
func burn(orders io.Reader) {
	const step = 10 * time.Millisecond
	var share atomic.Int64 // nanoseconds of each step
	for range runtime.NumCPU() {
		go func() { // ends with the process
			for {
				startedAt := time.Now()
				for busy := time.Duration(share.Load()); time.Since(startedAt) < busy; {
				}
				time.Sleep(step - time.Since(startedAt))
			}
		}()
	}
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		if f, err := strconv.ParseFloat(lines.Text(), 64); err == nil {
			share.Store(int64(f * float64(step)))
		}
	}
}

// burner is a process that uses the CPU time that load and nodes leave.
type burner struct {
	orders io.WriteCloser
	share  float64
}

func newBurner(tb testing.TB) *burner {
	tb.Helper()
	cmd := exec.Command(os.Args[0]) // ends with its input
	cmd.Env = append(os.Environ(), burnVariable+"=1")
	in, err := cmd.StdinPipe()
	must(tb, err)
	must(tb, cmd.Start())
	tb.Cleanup(func() {
		_ = in.Close()
		must(tb, cmd.Wait())
	})
	return &burner{orders: in}
}

// steer adjusts the burner so that the CPU use of the machine changes from busy to want.
func (b *burner) steer(tb testing.TB, busy, want float64) {
	tb.Helper()
	b.share = min(max(b.share+(want-busy)/2, 0), 1)
	_, err := fmt.Fprintf(b.orders, "%.3f\n", b.share)
	must(tb, err)
}

// cpu is a reading of /proc/stat: the busy time of the cores, and the total time.
type cpu struct{ busy, total float64 }

func readCPU(tb testing.TB) cpu {
	tb.Helper()
	b, err := os.ReadFile("/proc/stat")
	must(tb, err)
	line, _, _ := strings.Cut(string(b), "\n")
	c, err := parseCPU(line)
	must(tb, err)
	return c
}

// parseCPU reads the first line of /proc/stat (proc(5)): user, nice, system, idle,
// iowait, irq, softirq and steal. The following numbers are part of these.
func parseCPU(line string) (cpu, error) {
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return cpu{}, fmt.Errorf("%q is not the first line of /proc/stat", line)
	}
	var c cpu
	for i, s := range f[1:9] {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return cpu{}, err
		}
		c.total += v
		if i != 3 && i != 4 {
			c.busy += v
		}
	}
	return c, nil
}

// since returns the share of the time since an earlier reading in which the cores were
// busy.
func (c cpu) since(old cpu) float64 { return (c.busy - old.busy) / max(c.total-old.total, 1) }

func TestCPUIsReadFromTheFirstLine(t *testing.T) {
	old, err := parseCPU("cpu  100 0 50 800 50 0 0 0 7 0")
	must(t, err)
	now, err := parseCPU("cpu  160 0 80 805 55 0 0 0 7 0")
	must(t, err)
	if got := now.since(old); got != 0.9 {
		t.Errorf("since() = %v, want 0.9", got)
	}
	if _, err := parseCPU("cpu0 1 2 3 4 5 6 7 8"); err == nil {
		t.Error("a line of one core was taken")
	}
}
