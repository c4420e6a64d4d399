package h1

import "shardway/internal/fieldname"

// Field identifies a header field that the proxy treats specially. Because it is a small number, a
// set of fields can be tested with one bit operation.
type Field uint8

// The known fields.
const (
	// FieldOther is any other field.
	FieldOther Field = iota + 1
	FieldHost
	FieldContentLength
	FieldContentType
	FieldTransferEncoding
	FieldConnection
	FieldKeepAlive
	FieldProxyConnection
	FieldProxyAuthenticate
	FieldProxyAuthorization
	FieldTE
	FieldTrailer
	FieldUpgrade
	FieldExpect
	FieldDate
	FieldServer
	FieldVia
	FieldForwarded
	FieldXForwardedFor
	FieldXForwardedHost
	FieldXForwardedProto
	// FieldXForwardedOther is any other field whose name starts with X-Forwarded-.
	FieldXForwardedOther
	FieldXRealIP
	FieldXRequestID
	FieldCookie
	FieldLastEventID
	FieldSecWebSocketExtensions
	FieldShardwayMap
	FieldShardwayKey
	FieldShardwayShard
	FieldShardwayEpoch
	FieldShardwayNode
	FieldShardwayRefused
	FieldShardwayError
	FieldShardwayStream
	FieldShardwayHold
	FieldShardwayService
	// FieldShardwayOther is any other field whose name starts with Shardway-. It includes names
	// that would start with Shardway- if every byte other than letters and digits were a hyphen.
	FieldShardwayOther
	// FieldLookalike is a field whose name becomes that of a known field once _ and other special
	// characters are replaced by hyphens. CGI, WSGI and PHP do not distinguish the two names.
	FieldLookalike
	// FieldFramingLookalike is a lookalike of Content-Length or Transfer-Encoding. Requests with
	// such a field are rejected, because some servers use it to find the end of the body.
	FieldFramingLookalike
)

// FieldSet is a set of fields.
type FieldSet uint64

// Sets for Edit.Drop.
const (
	// HopByHop contains the fields that are never forwarded (RFC 9110 section 7.6.1).
	// Transfer-Encoding is generated again, and Trailer is forwarded if there are trailers.
	HopByHop = FieldSet(1<<FieldConnection | 1<<FieldKeepAlive | 1<<FieldProxyConnection |
		1<<FieldProxyAuthenticate | 1<<FieldProxyAuthorization | 1<<FieldTE | 1<<FieldUpgrade)
	// Shardway contains every field whose name starts with Shardway-.
	Shardway = FieldSet(1<<FieldShardwayMap | 1<<FieldShardwayKey | 1<<FieldShardwayShard | 1<<FieldShardwayEpoch |
		1<<FieldShardwayNode | 1<<FieldShardwayRefused | 1<<FieldShardwayError |
		1<<FieldShardwayStream | 1<<FieldShardwayHold | 1<<FieldShardwayService | 1<<FieldShardwayOther)
	// Forwarding contains every field whose name starts with X-Forwarded-, and X-Real-IP and
	// Forwarded.
	Forwarding = FieldSet(1<<FieldForwarded | 1<<FieldXForwardedFor | 1<<FieldXForwardedHost | 1<<FieldXForwardedProto |
		1<<FieldXForwardedOther | 1<<FieldXRealIP)
	// Lookalikes contains the fields whose names resemble those of known fields. They are removed
	// from every request, even one from a trusted proxy: the proxy itself uses hyphens, but may
	// have forwarded its client's field.
	Lookalikes = FieldSet(1<<FieldLookalike | 1<<FieldFramingLookalike)
)

// FieldSetOf returns the set of the given fields.
func FieldSetOf(fields ...Field) FieldSet {
	var set FieldSet
	for _, field := range fields {
		set |= 1 << field
	}
	return set
}

// Has reports whether f is in s.
func (s FieldSet) Has(f Field) bool { return s&(1<<f) != 0 }

// classify returns the number of the field with this name. name must be a token.
func classify(name []byte) Field {
	for _, c := range name {
		if !plainNameByte[c] {
			return classifyLookalike(name)
		}
	}
	return classifyPlain(name)
}

// classifyPlain implements classify for names that contain only letters, digits and hyphens.
func classifyPlain(name []byte) Field {
	first := name[0] | 0x20
	switch first {
	case 's':
		return classifyS(name)
	case 'x':
		return classifyX(name)
	case 'c', 'p', 't':
		return classifyCPT(name, first)
	}
	switch len(name) {
	case 3:
		return fieldIfNamed(name, "via", FieldVia)
	case 4:
		if first == 'h' {
			return fieldIfNamed(name, "host", FieldHost)
		}
		return fieldIfNamed(name, "date", FieldDate)
	case 6:
		return fieldIfNamed(name, "expect", FieldExpect)
	case 7:
		return fieldIfNamed(name, "upgrade", FieldUpgrade)
	case 9:
		return fieldIfNamed(name, "forwarded", FieldForwarded)
	case 10:
		return fieldIfNamed(name, "keep-alive", FieldKeepAlive)
	case 13:
		return fieldIfNamed(name, "last-event-id", FieldLastEventID)
	}
	return FieldOther
}

// classifyLookalike is classify for a name that also contains other bytes. It replaces each of
// these bytes with a hyphen and classifies the result. Most programs that derive variable names
// from field names replace such bytes by _; lighttpd replaces all of them. The buffer truncates
// longer names, of which only the prefix can match.
func classifyLookalike(name []byte) Field {
	var normalized [32]byte
	n := copy(normalized[:], name)
	for i, c := range normalized[:n] {
		normalized[i] = fieldname.NormalizeByte(c)
	}
	field := classifyPlain(normalized[:n])
	switch {
	case field == FieldOther:
		return FieldOther
	case Shardway.Has(field):
		return FieldShardwayOther
	case field == FieldContentLength, field == FieldTransferEncoding:
		return FieldFramingLookalike
	}
	return FieldLookalike
}

func classifyCPT(name []byte, first byte) Field {
	switch len(name) {
	case 2:
		return fieldIfNamed(name, "te", FieldTE)
	case 6:
		return fieldIfNamed(name, "cookie", FieldCookie)
	case 7:
		return fieldIfNamed(name, "trailer", FieldTrailer)
	case 10:
		return fieldIfNamed(name, "connection", FieldConnection)
	case 12:
		return fieldIfNamed(name, "content-type", FieldContentType)
	case 14:
		return fieldIfNamed(name, "content-length", FieldContentLength)
	case 16:
		return fieldIfNamed(name, "proxy-connection", FieldProxyConnection)
	case 17:
		return fieldIfNamed(name, "transfer-encoding", FieldTransferEncoding)
	case 18:
		return fieldIfNamed(name, "proxy-authenticate", FieldProxyAuthenticate)
	case 19:
		if first == 'p' {
			return fieldIfNamed(name, "proxy-authorization", FieldProxyAuthorization)
		}
	}
	return FieldOther
}

func classifyX(name []byte) Field {
	switch len(name) {
	case 9:
		if equalFoldLower(name, "x-real-ip") {
			return FieldXRealIP
		}
	case 12:
		if equalFoldLower(name, "x-request-id") {
			return FieldXRequestID
		}
	case 15:
		if equalFoldLower(name, "x-forwarded-for") {
			return FieldXForwardedFor
		}
	case 16:
		if equalFoldLower(name, "x-forwarded-host") {
			return FieldXForwardedHost
		}
	case 17:
		if equalFoldLower(name, "x-forwarded-proto") {
			return FieldXForwardedProto
		}
	}
	return classifyXForwarded(name)
}

// classifyXForwarded returns FieldXForwardedOther for a name that starts with X-Forwarded-, and
// otherwise FieldOther.
func classifyXForwarded(name []byte) Field {
	const prefix = "x-forwarded-"
	if len(name) < len(prefix) || !equalFoldLower(name[:len(prefix)], prefix) {
		return FieldOther
	}
	return FieldXForwardedOther
}

func classifyS(name []byte) Field {
	const prefix = "shardway-"
	switch len(name) {
	case 6:
		return fieldIfNamed(name, "server", FieldServer)
	case 24:
		if equalFoldLower(name, "sec-websocket-extensions") {
			return FieldSecWebSocketExtensions
		}
	}
	if len(name) < len(prefix) || !equalFoldLower(name[:len(prefix)], prefix) {
		return FieldOther
	}
	rest := name[len(prefix):]
	for i, suffix := range shardwayNames {
		if equalFoldLower(rest, suffix) {
			return FieldShardwayMap + Field(i)
		}
	}
	return FieldShardwayOther
}

// shardwayNames contains the names without prefix, in the order of the constants from
// FieldShardwayMap to FieldShardwayService.
var shardwayNames = [...]string{"map", "key", "shard", "epoch", "node", "refused", "error", "stream", "hold", "service"}

// fieldIfNamed returns field if name equals lower without regard to case, and otherwise FieldOther.
func fieldIfNamed(name []byte, lower string, field Field) Field {
	if equalFoldLower(name, lower) {
		return field
	}
	return FieldOther
}

// equalFoldLower reports whether b equals lower without regard to ASCII case. lower must be in
// lower case.
func equalFoldLower(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c-'A' < 26 {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
