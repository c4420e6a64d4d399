package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Limits of requests.
const (
	connectTimeout        = 5 * time.Second  // for the connection and the TLS handshake each
	defaultRequestTimeout = 15 * time.Second // for a whole request, with its redirects
	idleConnTimeout       = 90 * time.Second
	maxHeaderBytes        = 64 << 10 // of a response
	maxBodyBytes          = 64 << 10 // of a response body; the connection is closed after a longer one
	maxRedirects          = 3
	maxErrorBytes         = 200
)

// client sends requests to the receiver.
type client struct {
	transport http.RoundTripper
	userAgent string
	timeout   time.Duration // of a whole request
}

// newClient returns a client with the limits of this package.
func newClient(o *Options) client {
	c := client{transport: o.Transport, userAgent: o.UserAgent, timeout: o.RequestTimeout}
	if c.timeout <= 0 {
		c.timeout = defaultRequestTimeout
	}
	if c.transport == nil {
		c.transport = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
			ForceAttemptHTTP2:   true,
			TLSHandshakeTimeout: connectTimeout, IdleConnTimeout: idleConnTimeout,
			MaxIdleConnsPerHost: 1, MaxResponseHeaderBytes: maxHeaderBytes, DisableCompression: true,
		}
	}
	return c
}

// close closes the idle connections.
func (c *client) close() {
	if t, ok := c.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// response is the part of a response that matters after a failure. The zero value means that there was none.
type response struct {
	status     int
	retryAfter time.Duration // zero means that the receiver asks for no delay
}

// isRejection reports whether the receiver refuses the events of the request, so that a retry would not help.
func (r response) isRejection() bool {
	switch r.status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// send sends a batch, and returns nil if the receiver has acknowledged it with a status 2xx. It follows redirects that
// keep the method and lead to the same scheme, host and port. The error contains no part of the URL except the host.
func (c *client) send(ctx context.Context, target *url.URL, body []byte) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	current := *target
	current.User = nil // sent in a header
	for range maxRedirects + 1 {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, current.String(), bytes.NewReader(body))
		if err != nil {
			return response{}, errors.New("the URL cannot be used")
		}
		request.Header.Set("Content-Type", contentType)
		request.Header.Set("User-Agent", c.userAgent)
		if target.User != nil {
			password, _ := target.User.Password()
			request.SetBasicAuth(target.User.Username(), password)
		}
		received, err := c.transport.RoundTrip(request)
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			if err == nil {
				_ = received.Body.Close()
			}
			return response{}, fmt.Errorf("no response within %v", c.timeout)
		case err != nil:
			return response{}, errors.New(redactError(err.Error(), request))
		}
		discard(received.Body)
		result := response{status: received.StatusCode, retryAfter: retryAfter(received.Header.Get("Retry-After"), time.Now())}
		isSuccess := result.status >= http.StatusOK && result.status < http.StatusMultipleChoices
		if isSuccess {
			return result, nil
		}
		next := redirectTarget(&current, result.status, received.Header.Get("Location"))
		if next == nil {
			return result, statusError(result.status)
		}
		current = *next
	}
	return response{}, fmt.Errorf("more than %d redirects", maxRedirects)
}

// discard reads the rest of a response body, so that the connection can be reused, and closes it.
func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxBodyBytes)
	_ = body.Close()
}

// statusError returns the error for a status.
func statusError(status int) error {
	text := "status " + strconv.Itoa(status)
	if name := http.StatusText(status); name != "" {
		text += " " + name
	}
	if isRedirect := status >= http.StatusMultipleChoices && status < http.StatusBadRequest; isRedirect {
		text += ", redirect not followed"
	}
	return errors.New(text)
}

// redirectTarget returns the URL to which a response redirects a request for current. It returns nil if the response is
// no redirect, if the redirect changes the method, or if it leads to another scheme, host or port.
func redirectTarget(current *url.URL, status int, location string) *url.URL {
	if status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect || location == "" {
		return nil
	}
	next, err := current.Parse(location)
	if err != nil || next.Scheme != current.Scheme || !strings.EqualFold(next.Host, current.Host) || next.User != nil {
		return nil
	}
	next.Fragment = ""
	return next
}

// retryAfter returns the delay that a receiver requests with the header Retry-After, or zero if there is none.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if until, err := http.ParseTime(header); err == nil {
		return max(until.Sub(now), 0)
	}
	return 0
}

// redactError returns the text of an error of a transport without the secrets of the request. Such a text normally
// contains none, but it can quote a malformed response.
func redactError(text string, request *http.Request) string {
	user, password, _ := request.BasicAuth()
	target, credentials := request.URL, strings.TrimPrefix(request.Header.Get("Authorization"), "Basic ")
	for _, secret := range []string{target.RequestURI(), target.EscapedPath(), target.Path, target.RawQuery, credentials, user, password} {
		if len(secret) > 1 {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	if len(text) > maxErrorBytes {
		text = strings.ToValidUTF8(text[:maxErrorBytes], "") + "…"
	}
	return text
}
