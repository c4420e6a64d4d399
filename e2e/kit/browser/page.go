//go:build linux

package browser

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// View describes the display of a page.
type View struct {
	Width, Height int
	// Scale is the number of device pixels per page pixel; 0 means 1.
	Scale float64
	// Phone selects the layout of a phone.
	Phone    bool
	DarkMode bool
	// ReducedMotion asks the page for no animation.
	ReducedMotion bool
	// NoScript disables JavaScript.
	NoScript bool
}

// Page is a tab.
type Page struct {
	browser *Browser
	session string

	mu     sync.Mutex
	errors []string
}

// Open opens a page and returns when it is loaded.
func (b *Browser) Open(tb testing.TB, url string, view View) *Page {
	tb.Helper()
	var target struct {
		ID string `json:"targetId"`
	}
	fatalIf(tb, b.command("", "Target.createTarget", jsonObject{"url": "about:blank"}, &target))
	var attached struct {
		Session string `json:"sessionId"`
	}
	fatalIf(tb, b.command("", "Target.attachToTarget", jsonObject{"targetId": target.ID, "flatten": true}, &attached))
	page := &Page{browser: b, session: attached.Session}
	b.mu.Lock()
	b.pages[page.session] = page
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		page.command(tb, domain+".enable", nil, nil)
	}
	page.SetView(tb, view)
	if view.NoScript {
		page.command(tb, "Emulation.setScriptExecutionDisabled", jsonObject{"value": true}, nil)
	}
	page.command(tb, "Page.navigate", jsonObject{"url": url}, nil)
	page.Await(tb, url+" is loaded", `document.readyState === "complete" && location.href !== "about:blank" && document.body.childElementCount > 0`)
	return page
}

// jsonObject is a JSON object.
type jsonObject map[string]any

// SetView changes the display of the page.
func (p *Page) SetView(tb testing.TB, view View) {
	tb.Helper()
	scale := view.Scale
	if scale == 0 {
		scale = 1
	}
	p.command(tb, "Emulation.setDeviceMetricsOverride", jsonObject{"width": view.Width, "height": view.Height, "deviceScaleFactor": scale, "mobile": view.Phone}, nil)
	scheme, motion := "light", "no-preference"
	if view.DarkMode {
		scheme = "dark"
	}
	if view.ReducedMotion {
		motion = "reduce"
	}
	p.command(tb, "Emulation.setEmulatedMedia", jsonObject{"features": []jsonObject{
		{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion},
	}}, nil)
}

// Close closes the tab.
func (p *Page) Close(tb testing.TB) {
	tb.Helper()
	p.command(tb, "Page.close", nil, nil)
}

// Eval evaluates an expression in the page, waits if it is a promise, and decodes its
// value from JSON into value.
func (p *Page) Eval(tb testing.TB, expression string, value any) {
	tb.Helper()
	fatalIf(tb, p.eval(expression, value))
}

// eval evaluates a JavaScript expression, waits for its promise, and decodes the result into value. A nil value
// ignores the result.
func (p *Page) eval(expression string, value any) error {
	var response struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err := p.browser.command(p.session, "Runtime.evaluate", jsonObject{"expression": expression, "returnByValue": true, "awaitPromise": true}, &response)
	switch {
	case err != nil:
		return err
	case response.Exception != nil:
		return errors.New(response.Exception.Text + " " + response.Exception.Exception.Description)
	case value == nil || response.Result.Value == nil:
		return nil
	}
	return json.Unmarshal(response.Result.Value, value)
}

// Text returns the text of the first element that matches a selector.
func (p *Page) Text(tb testing.TB, selector string) (text string) {
	tb.Helper()
	p.Eval(tb, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector), &text)
	return text
}

// awaitTimeout is the timeout of Await, and awaitInterval its polling interval.
const (
	awaitTimeout  = 30 * time.Second
	awaitInterval = 20 * time.Millisecond
)

// Await waits until an expression is true in the page, and returns how long that took. condition describes
// the expression in the error message.
func (p *Page) Await(tb testing.TB, condition, expression string) time.Duration {
	tb.Helper()
	start := time.Now()
	tick := time.NewTicker(awaitInterval)
	defer tick.Stop()
	for time.Since(start) < awaitTimeout {
		var ok bool
		if err := p.eval("!!("+expression+")", &ok); err == nil && ok {
			return time.Since(start)
		}
		<-tick.C
	}
	tb.Fatalf("not true within %v: %s; text of the page:\n%s", awaitTimeout, condition, p.Text(tb, "body"))
	return 0
}

// Press presses a key with this KeyboardEvent.key, such as Tab, ArrowRight, Enter or a.
func (p *Page) Press(tb testing.TB, key string) {
	tb.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, " ": 32, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
	down := jsonObject{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
	switch {
	case key == "Enter":
		down["text"] = "\r"
	case len(key) == 1:
		down["text"] = key
	}
	p.command(tb, "Input.dispatchKeyEvent", down, nil)
	p.command(tb, "Input.dispatchKeyEvent", jsonObject{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}, nil)
}

// Type inserts text at the cursor.
func (p *Page) Type(tb testing.TB, text string) {
	tb.Helper()
	p.command(tb, "Input.insertText", jsonObject{"text": text}, nil)
}

// MovePointer moves the mouse pointer.
func (p *Page) MovePointer(tb testing.TB, x, y float64) {
	tb.Helper()
	p.command(tb, "Input.dispatchMouseEvent", jsonObject{"type": "mouseMoved", "x": x, "y": y, "pointerType": "mouse"}, nil)
}

// Screenshot returns the visible part as PNG; full adds the part below.
func (p *Page) Screenshot(tb testing.TB, full bool) []byte {
	tb.Helper()
	var shot struct {
		Data []byte `json:"data"`
	}
	p.command(tb, "Page.captureScreenshot", jsonObject{"format": "png", "captureBeyondViewport": full}, &shot)
	return shot.Data
}

// Errors returns the errors in the console, exceptions, and blocked requests.
func (p *Page) Errors() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.errors)
}

// handleEvent records the errors that an event of Chromium reports.
func (p *Page) handleEvent(method string, params json.RawMessage) {
	addError := func(format string, args ...any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.errors = append(p.errors, fmt.Sprintf(format, args...))
	}
	switch method {
	case "Log.entryAdded":
		var logged struct {
			Entry struct {
				Source, Level, Text, URL string
			} `json:"entry"`
		}
		if json.Unmarshal(params, &logged) == nil && (logged.Entry.Level == "error" || logged.Entry.Source == "security") {
			addError("%s %s: %s %s", logged.Entry.Source, logged.Entry.Level, logged.Entry.Text, logged.Entry.URL)
		}
	case "Runtime.exceptionThrown":
		addError("exception: %s", params)
	case "Runtime.consoleAPICalled":
		if strings.Contains(string(params), `"type":"error"`) {
			addError("console: %s", params)
		}
	}
}

func (p *Page) command(tb testing.TB, method string, params, value any) {
	tb.Helper()
	fatalIf(tb, p.browser.command(p.session, method, params, value))
}

func fatalIf(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
