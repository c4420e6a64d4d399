//go:build linux

package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardway/e2e/kit/procgroup"
)

// answerTimeout is how long Chromium has for one command.
const answerTimeout = 20 * time.Second

// Browser is one Chromium process.
type Browser struct {
	out io.Writer

	mu      sync.Mutex
	next    int
	waiting map[int]chan message
	pages   map[string]*Page // by session
	ended   error
}

// message is what goes over the pipes: a command, its result, or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Find returns the path of a Chromium that is installed.
func Find() (path string, ok bool) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// Must starts a Chromium that is installed, and skips the test where none is.
func Must(tb testing.TB) *Browser {
	tb.Helper()
	path, ok := Find()
	if !ok {
		tb.Skip("no Chromium is installed: apt-get install chromium")
	}
	return Start(tb, path)
}

// Start starts Chromium, which ends with the test. It reaches nothing but 127.0.0.1.
func Start(tb testing.TB, path string) *Browser {
	tb.Helper()
	dir, err := os.MkdirTemp("", "shardway-browser-") //nolint:usetesting // its processes may still write when they are killed
	if err != nil {
		tb.Fatal(err)
	}
	args := []string{
		"--headless", "--remote-debugging-pipe", "--user-data-dir=" + dir, "--no-first-run", "--no-default-browser-check",
		"--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-sync", "--disable-background-networking",
		"--disable-component-update", "--disable-default-apps", "--mute-audio", "--force-color-profile=srgb", "--lang=en-GB",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--proxy-server=direct://",
		// No page is hostile: one process shows them all. Each had two of its own, one of which
		// it never used.
		"--renderer-process-limit=1", "--disable-site-isolation-trials", "--in-process-gpu", "--disable-breakpad",
		"--disable-features=SitePerProcess,SpareRendererForSitePerProcess,Translate,MediaRouter,OptimizationHints",
	}
	if os.Getuid() == 0 {
		args = append(args, "--no-sandbox", "--no-zygote") // the first of which root cannot have
	}
	cmd := exec.CommandContext(context.WithoutCancel(tb.Context()), path, append(args, "about:blank")...) //nolint:gosec // a browser
	cmd.Env = append(os.Environ(), "TZ=UTC", "HOME="+dir)
	theirIn, in, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4, as the flag wants them
	wait, err := procgroup.Start(cmd)
	if err != nil {
		tb.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	b := &Browser{out: in, waiting: make(map[int]chan message), pages: make(map[string]*Page)}
	var reading sync.WaitGroup
	reading.Go(func() { b.read(out) })
	tb.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = wait()
		_, _ = in.Close(), out.Close()
		reading.Wait()
		_ = os.RemoveAll(dir)
	})
	return b
}

// read hands out what comes, until Chromium ends.
func (b *Browser) read(out io.Reader) {
	r := bufio.NewReader(out)
	for {
		raw, err := r.ReadBytes(0)
		if err != nil {
			b.end(err)
			return
		}
		var m struct {
			message
			Params json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &m); err != nil {
			b.end(err)
			return
		}
		b.mu.Lock()
		answer, page := b.waiting[m.ID], b.pages[m.Session]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		switch {
		case m.ID != 0 && answer != nil:
			answer <- m.message
		case m.ID == 0 && page != nil:
			page.event(m.Method, m.Params)
		}
	}
}

func (b *Browser) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = err
	for id, answer := range b.waiting {
		close(answer)
		delete(b.waiting, id)
	}
}

// command sends one command and reads its result into value; nil throws it away.
func (b *Browser) command(session, method string, params, value any) error {
	answer := make(chan message, 1)
	b.mu.Lock()
	if b.ended != nil {
		b.mu.Unlock()
		return fmt.Errorf("chromium has ended: %w", b.ended)
	}
	b.next++
	id := b.next
	b.waiting[id] = answer
	raw, err := json.Marshal(message{ID: id, Session: session, Method: method, Params: params})
	if err == nil {
		_, err = b.out.Write(append(raw, 0)) // with mu held: one at a time
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return errors.New(method + ": chromium has ended")
		case m.Error != nil:
			return errors.New(method + ": " + m.Error.Message)
		case value == nil:
			return nil
		}
		return json.Unmarshal(m.Result, value)
	case <-time.After(answerTimeout):
		return errors.New(method + ": chromium does not answer")
	}
}
