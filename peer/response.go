package peer

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// encodeAccepted encodes the response of a port that accepts a stream. The header is the same in
// all versions: magic, version (1 byte), status (1), length of the body (2, big endian). The body
// of version 2 is: boot (8) and record (4 × 8), then cluster, node and disk, each preceded by its
// length (1).
func encodeAccepted(self Identity) ([]byte, error) {
	b := responseHeader(statusAccepted)
	b = appendRecord(b, self.Boot, self.Record)
	b, err := appendIDs(b, self.Cluster, self.Node, self.Disk)
	if err != nil {
		return nil, err
	}
	return finishResponse(b), nil
}

// encodeRefused encodes a refusal. Its body is the reason in UTF-8, in all versions.
func encodeRefused(refusal *RefusedError) []byte {
	reason := refusal.Reason
	if len(reason) > maxReasonLen {
		reason = strings.ToValidUTF8(reason[:maxReasonLen], "")
	}
	return finishResponse(append(responseHeader(byte(refusal.Code)), reason...))
}

// responseHeader returns a response header without the length, which finishResponse sets.
func responseHeader(status byte) []byte {
	b := make([]byte, responseHeaderLen, 128)
	copy(b, magic)
	b[len(magic)] = Version
	b[len(magic)+1] = status
	return b
}

// finishResponse sets the length of the body in the header.
func finishResponse(b []byte) []byte {
	binary.BigEndian.PutUint16(b[responseHeaderLen-2:], uint16(len(b)-responseHeaderLen))
	return b
}

// readResponse reads exactly one response: the identity of the other side, or its refusal as a
// *RefusedError without the node.
func readResponse(r io.Reader) (Identity, error) {
	var header [responseHeaderLen]byte
	if err := readMagic(r, header[:]); err != nil {
		return Identity{}, err
	}
	body, err := readBody(r, binary.BigEndian.Uint16(header[responseHeaderLen-2:]))
	if err != nil {
		return Identity{}, err
	}
	version, status := header[len(magic)], header[len(magic)+1]
	switch {
	case status == 0:
		return Identity{}, fmt.Errorf("%w: status 0", errMalformed)
	case status != statusAccepted:
		reason := strings.ToValidUTF8(string(body), "\uFFFD")
		return Identity{}, &RefusedError{Code: Refusal(status), Reason: reason}
	case version != Version:
		return Identity{}, newRefusal(RefusedVersionMismatch,
			"it responds in peer protocol %d, this node uses %d", version, Version)
	}
	return decodeAccepted(body)
}

// decodeAccepted decodes the body of a response that accepts a stream.
func decodeAccepted(b []byte) (Identity, error) {
	if len(b) < recordLen {
		return Identity{}, fmt.Errorf("%w: %d bytes", errMalformed, len(b))
	}
	var id Identity
	id.Boot, id.Record = parseRecord(b)
	if err := parseIDs(b[recordLen:], &id.Cluster, &id.Node, &id.Disk); err != nil {
		return Identity{}, err
	}
	if id.Node == "" {
		return Identity{}, fmt.Errorf("%w: empty node id", errMalformed)
	}
	return id, nil
}
