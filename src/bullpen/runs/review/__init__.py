"""Reviews: an agent of another driver or model looks at work in a throwaway team of its own."""
