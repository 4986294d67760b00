// Package execute carries a plan out: it alone sends eviction requests. It works by the plan that
// it is given and hands back one report; what the agent remembers it neither reads nor writes. See
// docs/adr/0025-a-plan-is-carried-out-beside-the-loop.md.
package execute
