// Package assess puts together what is known of a pressure and asks [decide.Decide] what to do
// about it. It brings what is in flight up to date by what it measures; it sends nothing.
package assess
