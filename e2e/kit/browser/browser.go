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

// commandTimeout is the maximum duration of one command of Chromium.
const commandTimeout = 20 * time.Second

// Browser is one Chromium process.
type Browser struct {
	commands io.Writer

	// mu protects the following fields, and writes to commands.
	mu      sync.Mutex
	lastID  int                  // ID of the last command
	pending map[int]chan message // commands without a result, by ID
	pages   map[string]*Page     // by session ID
	ended   error                // why Chromium has ended; nil while it runs
}

// message is a message on the pipes: a command, its result, or an event.
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

// Find returns the path of an installed Chromium.
func Find() (path string, ok bool) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// StartOrSkip starts an installed Chromium, and skips the test if there is none.
func StartOrSkip(tb testing.TB) *Browser {
	tb.Helper()
	path, ok := Find()
	if !ok {
		tb.Skip("no Chromium is installed: apt-get install chromium")
	}
	return Start(tb, path)
}

// Start starts Chromium. It ends with the test, and can reach only 127.0.0.1.
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
		// No page is hostile, so one process shows them all. Otherwise each page would
		// have two processes, and never use one of them.
		"--renderer-process-limit=1", "--disable-site-isolation-trials", "--in-process-gpu", "--disable-breakpad",
		"--disable-features=SitePerProcess,SpareRendererForSitePerProcess,Translate,MediaRouter,OptimizationHints",
	}
	if os.Getuid() == 0 {
		args = append(args, "--no-sandbox", "--no-zygote") // root cannot have a sandbox
	}
	cmd := exec.CommandContext(context.WithoutCancel(tb.Context()), path, append(args, "about:blank")...) //nolint:gosec // a browser
	cmd.Env = append(os.Environ(), "TZ=UTC", "HOME="+dir)
	childInput, input, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	output, childOutput, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{childInput, childOutput} // file descriptors 3 and 4, as the flag requires
	wait, err := procgroup.Start(cmd)
	if err != nil {
		tb.Fatal(err)
	}
	_, _ = childInput.Close(), childOutput.Close()
	browser := &Browser{commands: input, pending: make(map[int]chan message), pages: make(map[string]*Page)}
	var readers sync.WaitGroup
	readers.Go(func() { browser.read(output) })
	tb.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = wait()
		_, _ = input.Close(), output.Close()
		readers.Wait()
		_ = os.RemoveAll(dir)
	})
	return browser
}

// read dispatches messages until Chromium ends.
func (b *Browser) read(out io.Reader) {
	reader := bufio.NewReader(out)
	for {
		raw, err := reader.ReadBytes(0)
		if err != nil {
			b.failPending(err)
			return
		}
		var received struct {
			message
			Params json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(bytes.TrimSuffix(raw, []byte{0}), &received); err != nil {
			b.failPending(err)
			return
		}
		b.mu.Lock()
		result, page := b.pending[received.ID], b.pages[received.Session]
		delete(b.pending, received.ID)
		b.mu.Unlock()
		switch {
		case received.ID != 0 && result != nil:
			result <- received.message
		case received.ID == 0 && page != nil:
			page.handleEvent(received.Method, received.Params)
		}
	}
}

// failPending records that Chromium has ended, and ends all waiting commands.
func (b *Browser) failPending(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = err
	for id, result := range b.pending {
		close(result)
		delete(b.pending, id)
	}
}

// command sends one command and decodes its result into value; nil discards the result.
func (b *Browser) command(session, method string, params, value any) error {
	result, err := b.send(session, method, params)
	if err != nil {
		return err
	}
	select {
	case response, ok := <-result:
		switch {
		case !ok:
			return errors.New(method + ": chromium has ended")
		case response.Error != nil:
			return errors.New(method + ": " + response.Error.Message)
		case value == nil:
			return nil
		}
		return json.Unmarshal(response.Result, value)
	case <-time.After(commandTimeout):
		return errors.New(method + ": timeout")
	}
}

// send sends one command. The returned channel receives its result. It is closed if Chromium ends first.
func (b *Browser) send(session, method string, params any) (<-chan message, error) {
	b.mu.Lock()
	defer b.mu.Unlock() // held during the write, because each message must be written whole
	if b.ended != nil {
		return nil, fmt.Errorf("chromium has ended: %w", b.ended)
	}
	b.lastID++
	result := make(chan message, 1)
	b.pending[b.lastID] = result
	raw, err := json.Marshal(message{ID: b.lastID, Session: session, Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	_, err = b.commands.Write(append(raw, 0))
	return result, err
}
