from test_fleet_ansible import *
from musadoctor.fleet.carry.ssh import Ssh
def test_x(fleet, hosts):
    for n in range(3):
        t=time.monotonic(); e=fleet.engine; e.hosts(); a=time.monotonic()-t
        t=time.monotonic(); fleet.told.clear(); fleet.carry(); b=time.monotonic()-t
        t=time.monotonic(); fleet.told.clear(); fleet.carry(limit=hosts.names); c=time.monotonic()-t
        t=time.monotonic(); fleet.told.clear(); fleet.carry(limit=("h1",)); d=time.monotonic()-t
        t=time.monotonic(); Ssh(hosts.names).carry(JSON, lambda x: None, threading.Event()); s=time.monotonic()-t
        t=time.monotonic(); Ssh(("h1",)).carry(JSON, lambda x: None, threading.Event()); s1=time.monotonic()-t
        print("list %.1f carry %.1f known hosts %.1f one host %.1f | ssh %.1f one %.1f" % (a,b,c,d,s,s1))
    z=zipapp()
    t=time.monotonic(); fleet.told.clear(); fleet.carry(JSON._replace(zipapp=z)); print("bring %.1f"%(time.monotonic()-t))
    assert 0
