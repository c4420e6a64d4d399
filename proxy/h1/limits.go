package h1

// SetLimits replaces Options.MaxHeaderBytes, MaxTargetBytes and MaxHeaderLines, beginning with the
// next header. It must not be called during a read.
func (c *Conn) SetLimits(headBytes, targetBytes, headLines int) {
	o := c.options
	o.MaxHeaderBytes, o.MaxTargetBytes, o.MaxHeaderLines = headBytes, targetBytes, headLines
	c.options = o.withDefaults()
	c.in.maxSize = max(c.options.MaxHeaderBytes, c.options.ReadBuffer)
}
