"""The store on NATS JetStream, for teams on several machines.

The truth is one ordered log per team, written with compare-and-set. `log` keeps and replays it,
`client` has what the NATS client library lacks, `store` implements the contract.
"""
