package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// Limits of a Client. The list of all shards of the largest map has about 6 MiB, and the largest backup, with a full
// registry, less than 56 MiB.
const (
	dialTimeout       = 3 * time.Second
	responseTimeout   = 10 * time.Second
	maxResponseBytes  = 64 << 20
	maxResponseHeader = 64 << 10
)

// Client sends requests to the admin port of one node. It is safe for concurrent use. Its errors
// are written for the user: they contain the address and the remedy. An error response is
// available with errors.As as a *problem.Problem.
type Client struct {
	base          string // scheme and authority
	addr          string // the address as the user specified it
	flag          string // name of the flag that contains addr, for error messages
	token         string // token for the Authorization header; empty means none
	isLocalSocket bool   // addr is the Unix socket in the data directory of a node
	http          *http.Client
}

// Credentials authenticate a Client. The zero value contains none, and is for an admin port without
// authentication.
type Credentials struct {
	// Token is sent in the Authorization header. It is sent without TLS only to a loopback address,
	// or if the address starts with http://.
	Token string
	// TLS contains the trusted authorities and the client certificate. If it is set, the client uses
	// TLS, also for an address without a scheme.
	TLS *tls.Config
	// FlagName is no credential: it is the flag with which the user specified the address. Error messages
	// name it. Empty means --admin.
	FlagName string
}

// New returns a Client for an address: host:port, :port for this machine, or a URL without a
// path.
func New(addr string) (*Client, error) { return NewWithCredentials(addr, Credentials{}) }

// NewWithCredentials is New for an admin port that requires a token or TLS.
func NewWithCredentials(addr string, credentials Credentials) (*Client, error) {
	flag := cmp.Or(credentials.FlagName, "--admin")
	base, ok := parseAddr(addr, credentials)
	if !ok {
		return nil, fmt.Errorf("%s %q is not an address: give host:port, as in 127.0.0.1:8081", flag, addr)
	}
	if credentials.TLS != nil && base.Scheme == "http" {
		return nil, fmt.Errorf("%s %q does not use TLS: certificates are for an address that begins with https://", flag, addr)
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	return &Client{
		base: base.Scheme + "://" + base.Host, addr: addr, flag: flag, token: credentials.Token,
		http: &http.Client{
			// The proxy settings of the environment do not apply to admin ports.
			Transport: &http.Transport{
				DialContext: dialer.DialContext, TLSClientConfig: credentials.TLS, MaxResponseHeaderBytes: maxResponseHeader,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// parseAddr converts an address of New to a URL with scheme and authority. ok is false if the address
// is invalid. An address without a scheme gets https if the credentials need TLS, and otherwise http.
func parseAddr(addr string, credentials Credentials) (parsed *url.URL, ok bool) {
	base := addr
	if !strings.Contains(addr, "://") {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || port == "" {
			return nil, false
		}
		host = cmp.Or(host, "127.0.0.1")
		scheme := "http"
		tokenNeedsTLS := credentials.Token != "" && !isLoopback(host)
		if credentials.TLS != nil || tokenNeedsTLS {
			scheme = "https"
		}
		base = scheme + "://" + net.JoinHostPort(host, port)
	}
	parsed, err := url.Parse(base)
	if err != nil {
		return nil, false
	}
	isHTTP := parsed.Scheme == "http" || parsed.Scheme == "https"
	hasPath := parsed.Path != "" && parsed.Path != "/"
	isAuthorityOnly := parsed.Host != "" && !hasPath && parsed.RawQuery == "" && parsed.User == nil
	return parsed, isHTTP && isAuthorityOnly
}

// isLoopback reports whether a host is localhost or a loopback address.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost"
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// singleParam returns a query with one parameter, or nil if value is empty.
func singleParam(name, value string) url.Values {
	if value == "" {
		return nil
	}
	return url.Values{name: {value}}
}

// getJSON sends a GET request and decodes the JSON response.
func getJSON[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	if query != nil {
		path += "?" + query.Encode()
	}
	return fetchJSON[T](ctx, c, call{method: http.MethodGet, path: path})
}

// fetchJSON sends a request and decodes the JSON response.
func fetchJSON[T any](ctx context.Context, c *Client, request call) (T, error) {
	var decoded T
	b, err := c.do(ctx, request)
	if err != nil {
		return decoded, err
	}
	if err := json.Unmarshal(b, &decoded); err != nil {
		return decoded, fmt.Errorf("%s answered %s %s with something this version does not expect (%w): are both the same version?", c.addr, request.method, request.path, err)
	}
	return decoded, nil
}

// call is one request.
type call struct {
	method, path string
	body         []byte        // nil means no body
	serverWait   time.Duration // how long the node may wait before it responds, in addition to responseTimeout
}

// do sends a request. It returns the body of a response with status 200, and an error otherwise.
func (c *Client) do(ctx context.Context, request call) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout+request.serverWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, request.method, c.base+request.path, bytes.NewReader(request.body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if request.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, c.describeError(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes))
	if err != nil {
		return nil, c.describeError(err)
	}
	if response.Header.Get("Server") != api.ServerName {
		return nil, fmt.Errorf("%s is not a Shardway admin port (%s %s: %s): name the node's admin address with %s ADDR", c.addr, request.method, request.path, response.Status, c.flag)
	}
	if response.StatusCode == http.StatusOK {
		return content, nil
	}
	if apiProblem, err := problem.Decode(content); err == nil {
		return nil, apiProblem
	}
	return nil, fmt.Errorf("%s answered %s %s with %s", c.addr, request.method, request.path, response.Status)
}

// describeError turns a connection error into an error with a remedy for the user.
func (c *Client) describeError(err error) error {
	if c.isLocalSocket {
		return c.describeLocalError(err)
	}
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens on %s: is the node running? If its admin address is another, name it with %s ADDR (%w)", c.addr, c.flag, syscall.ECONNREFUSED)
	case errors.As(err, &dns):
		return fmt.Errorf("the name in %s %s cannot be looked up (%w)", c.flag, c.addr, dns)
	case errors.As(err, &unknown), errors.As(err, &name):
		return fmt.Errorf("the certificate of %s is not accepted: name its authority with --tls-ca, and the node as the certificate does (%w)", c.addr, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s does not use TLS: name it as http://%s if plain HTTP will do (%w)", c.addr, strings.TrimPrefix(c.base, "https://"), http.ErrSchemeMismatch)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from %s in time: is it the node's admin address? Name it with %s ADDR (%w)", c.addr, c.flag, context.DeadlineExceeded)
	}
	return fmt.Errorf("no answer from %s: is it the node's admin address? Name it with %s ADDR (%w)", c.addr, c.flag, err)
}
