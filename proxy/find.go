package proxy

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"strings"

	"shardway/internal/problem"
	"shardway/keysource"
	"shardway/proxy/h1"
)

// stickyCookie is the cookie that on-missing: cookie sets and reads.
const stickyCookie = "Shardway-Key"

// stickyLen is the length of its value: 128 bits in hexadecimal.
const stickyLen = 32

// Refusals of requests that name a key in a way the app may read otherwise.
const (
	badTwoKeys  = "two different keys in "
	badUnseen   = "Connection names what the app is to see of "
	badPath     = "a path that has two readings (., .., an empty segment, an encoded slash, \\ or ;) for "
	badPathHint = "the routes"
)

// findKey finds the key of the request; false means that it has been answered.
func (c *client) findKey() bool {
	table := c.set.Keys.table
	choice := table.All()
	if table.Routed() {
		p := keysource.ReadPath(c.grown(len(c.req.Path())), c.req.Path())
		var sure bool
		if choice, sure = table.Choose(&p); !sure {
			c.refuseKey(badPath, badPathHint)
			return false
		}
	}
	for i := range choice.Sources {
		key, bad := c.keyFrom(&choice.Sources[i])
		if bad != "" {
			c.refuseKey(bad, choice.Sources[i].String())
			return false
		}
		if key != nil {
			c.x.key = key
			return true
		}
	}
	return c.withoutKey(choice.Wants)
}

// refuseKey answers a request whose key this node and the app could read
// differently: it may own the shard of one reading only.
func (c *client) refuseKey(bad, where string) {
	c.answer(&problem.Problem{Code: problem.BadRequest, Detail: bad + where, Param: where})
}

// withoutKey does as on-missing says; false means that the request has been
// answered. A preflight cannot carry the header that a key may be looked for in
// (WHATWG Fetch, section 4.8), so it is not refused for that: any app may answer it.
func (c *client) withoutKey(wants string) bool {
	switch c.set.Keys.missing {
	case keysource.MissingLocal:
		if c.s.upstream == nil && !c.preflight() {
			c.answer(&problem.Problem{Code: problem.NoKey, Detail: "looked for " + wants + "; this node is a gateway without an app"})
			return false
		}
		c.x.keyless = true
		return true
	case keysource.MissingHashPath:
		c.x.key = keysource.NormalPath(c.scratch, c.req.Path())
		return true
	case keysource.MissingCookie:
		c.stickyKey()
		return true
	case keysource.MissingReject:
	}
	if c.preflight() {
		c.x.keyless = true
		return true
	}
	c.answer(&problem.Problem{Code: problem.NoKey, Detail: "looked for " + wants, Param: wants})
	return false
}

// preflight reports whether a browser asks what it may ask.
func (c *client) preflight() bool {
	return string(c.req.Method()) == "OPTIONS" && len(c.req.Value("Access-Control-Request-Method")) > 0
}

// keyFrom returns the key that a source gives, nil without one, or why the
// request is refused.
func (c *client) keyFrom(s *keysource.Source) (key []byte, bad string) {
	switch s.Kind {
	case keysource.Header:
		return c.headerKey(s.Name)
	case keysource.Path:
		p := keysource.ReadPath(c.grown(len(c.req.Path())), c.req.Path())
		segment, sure := p.Segment(s.Segment)
		if !sure {
			return nil, badPath
		}
		return segment, ""
	case keysource.Query:
		v, same := queryValue(c.grown(len(c.req.Query())), c.req.Query(), s.Name)
		if !same {
			return nil, badTwoKeys
		}
		return v, ""
	case keysource.Cookie:
		return c.cookie(s.Name)
	case keysource.Host:
		return hostName(c.grown(len(c.req.Host())), c.req.Host()), ""
	case keysource.JWT:
		token, bad := c.headerKey("Authorization")
		return jwtClaim(token, s.Name), bad
	case keysource.IP:
		return c.clientIP(), ""
	}
	return nil, ""
}

// headerKey returns the value that the header lines of that name have, those with
// _ for - included: an app may take any of them for the key. What does not go on
// to the app is not there.
func (c *client) headerKey(name string) (key []byte, bad string) {
	for i := c.req.FindAlike(name, 0); i >= 0; i = c.req.FindAlike(name, i+1) {
		_, v := c.req.Field(i)
		switch {
		case len(v) == 0 || c.removed().Has(c.req.Class(i)):
		case c.req.Named(i):
			return nil, badUnseen
		case key == nil:
			key = v
		case !bytes.Equal(v, key):
			return nil, badTwoKeys
		}
	}
	return key, ""
}

// removed returns the fields that no app sees as the client sent them.
func (c *client) removed() h1.Set {
	if c.from.trusted {
		return h1.HopByHop | h1.Shardway | h1.Lookalikes
	}
	return h1.HopByHop | h1.Shardway | h1.Lookalikes | h1.Forwarding
}

// cookie returns the first cookie of that name, and what speaks against it.
func (c *client) cookie(name string) (key []byte, bad string) {
	for i := c.req.Find("Cookie", 0); i >= 0; i = c.req.Find("Cookie", i+1) {
		_, field := c.req.Field(i)
		v, same := cookieValue(field, name)
		if v == nil {
			continue
		}
		if key == nil {
			key = v
		}
		switch {
		case c.req.Named(i):
			bad = badUnseen
		case !same || !bytes.Equal(v, key):
			bad = badTwoKeys
		}
	}
	return key, bad
}

// grown returns c.scratch with room for n bytes.
func (c *client) grown(n int) []byte {
	if cap(c.scratch) < n {
		c.scratch = make([]byte, 0, n)
	}
	return c.scratch[:0]
}

// stickyKey takes the key from the sticky cookie, or makes one that the answer
// will set. A value that this proxy cannot have set is replaced.
func (c *client) stickyKey() {
	// Of several the first one counts: the app goes by Shardway-Key, not by the cookie.
	if v, _ := c.cookie(stickyCookie); len(v) == stickyLen && isHex(v) {
		c.x.key = v
		return
	}
	var random [stickyLen / 2]byte
	_, _ = rand.Read(random[:]) // never fails
	c.x.newCookie = hex.AppendEncode(make([]byte, 0, stickyLen), random[:])
	c.x.key = c.x.newCookie
}

func isHex(v []byte) bool {
	for _, b := range v {
		digit := b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
		if !digit {
			return false
		}
	}
	return true
}

// appendCookie appends the sticky cookie, if the answer has to set it.
func (c *client) appendCookie(b []byte) []byte {
	if c.x.newCookie == nil {
		return b
	}
	b = append(b, "Set-Cookie: "+stickyCookie+"="...)
	b = append(b, c.x.newCookie...)
	b = append(b, "; Path=/; HttpOnly; SameSite=Lax"...)
	if c.overTLS() {
		b = append(b, "; Secure"...)
	}
	return append(b, "\r\n"...)
}

// overTLS reports whether the client came by https, here or, as a trusted proxy
// says, to the first of them.
func (c *client) overTLS() bool {
	if c.from.proto == "https" {
		return true
	}
	first, _, _ := bytes.Cut(c.req.Known(h1.FieldXForwardedProto), []byte(","))
	return c.from.trusted && strings.EqualFold(string(bytes.TrimSpace(first)), "https")
}
