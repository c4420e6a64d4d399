package proxy

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"

	"shardway/internal/problem"
)

// stickyCookie is the cookie that on-missing: cookie sets and reads.
const stickyCookie = "Shardway-Key"

// stickyLen is the length of its value: 128 bits in hexadecimal.
const stickyLen = 32

// findKey finds the key of the request; false means that it has been answered.
func (c *client) findKey() bool {
	k := c.set.Keys
	sources, wants := k.sources, k.wants
	if len(k.routes) > 0 {
		// By what the app takes the path for: another spelling is no way around.
		sources, wants = k.choose(normalPath(c.grown(len(c.req.Path())), c.req.Path()))
	}
	for i := range sources {
		if c.x.key = c.keyFrom(&sources[i]); c.x.key == nil {
			continue
		}
		if sources[i].kind == sourceHeader && c.twoKeys(sources[i].name) {
			c.answer(&problem.Problem{Code: problem.BadRequest, Detail: "two different keys in header:" + sources[i].name, Param: "header:" + sources[i].name})
			return false
		}
		return true
	}
	switch k.missing {
	case missingLocal:
		if c.s.upstream == nil {
			c.answer(&problem.Problem{Code: problem.NoKey, Detail: "looked for " + wants + "; this node is a gateway without an app"})
			return false
		}
		c.x.keyless = true
		return true
	case missingHashPath:
		c.x.key = normalPath(c.scratch, c.req.Path())
		return true
	case missingCookie:
		c.stickyKey()
		return true
	case missingReject:
	}
	c.answer(&problem.Problem{Code: problem.NoKey, Detail: "looked for " + wants, Param: wants})
	return false
}

// keyFrom returns the key that a source gives, nil without one.
func (c *client) keyFrom(s *source) []byte {
	switch s.kind {
	case sourceHeader:
		return c.headerKey(s.name)
	case sourcePath:
		return pathSegment(c.grown(len(c.req.Path())), c.req.Path(), s.segment)
	case sourceQuery:
		return queryValue(c.grown(len(c.req.Query())), c.req.Query(), s.name)
	case sourceCookie:
		return c.cookie(s.name)
	case sourceHost:
		return hostName(c.grown(len(c.req.Host())), c.req.Host())
	case sourceJWT:
		return jwtClaim(c.req.Value("Authorization"), s.name)
	case sourceIP:
		return c.clientIP()
	}
	return nil
}

// headerKey returns the first header line of that name that is not empty.
func (c *client) headerKey(name string) []byte {
	for i := c.req.Find(name, 0); i >= 0; i = c.req.Find(name, i+1) {
		if _, v := c.req.Field(i); len(v) > 0 {
			return v
		}
	}
	return nil
}

// twoKeys reports whether header lines of that name name another key than the
// first. An app may take any of them for the key, and this node may own the
// shard of one only.
func (c *client) twoKeys(name string) bool {
	for i := c.req.Find(name, 0); i >= 0; i = c.req.Find(name, i+1) {
		if _, v := c.req.Field(i); len(v) > 0 && !bytes.Equal(v, c.x.key) {
			return true
		}
	}
	return false
}

// cookie returns the first cookie of that name.
func (c *client) cookie(name string) []byte {
	for i := c.req.Find("Cookie", 0); i >= 0; i = c.req.Find("Cookie", i+1) {
		_, field := c.req.Field(i)
		if v := cookieValue(field, name); v != nil {
			return v
		}
	}
	return nil
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
	if v := c.cookie(stickyCookie); len(v) == stickyLen && isHex(v) {
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
		if unhex(b) > 15 {
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
	return append(b, "; Path=/; HttpOnly; SameSite=Lax\r\n"...)
}
